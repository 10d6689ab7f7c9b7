import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import Cosine, Position, Schedule, StepDecay, WarmUp


def at(schedule, step=0, epoch=0, fraction=0.0):
    return schedule.at(Position(step, epoch, fraction))


def test_a_constant_rate_stays():
    assert at(Schedule(0.3), 5, 7) == 0.3


def test_step_decay_by_whole_epochs():
    schedule = StepDecay(1.0, factor=0.1, epochs=3)
    assert [at(schedule, epoch=e) for e in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])


def test_cosine_from_rate_to_floor():
    schedule = Cosine(1.0, epochs=4, floor=0.2)
    assert at(schedule) == 1.0
    assert at(schedule, epoch=2) == pytest.approx(0.6)
    between = 0.6 + 0.4 * math.cos(3 * math.pi / 8)
    assert at(schedule, epoch=1, fraction=0.5) == pytest.approx(between)
    assert at(schedule, epoch=4) == pytest.approx(0.2)
    assert at(schedule, epoch=9) == pytest.approx(0.2)


def test_warm_up_is_linear_and_then_follows():
    schedule = WarmUp(Cosine(1.0, epochs=10), steps=4)
    assert [at(schedule, step=s) for s in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert at(schedule, step=100, epoch=5) == pytest.approx(0.5)


def test_configurations_are_json_and_tell_schedules_apart():
    cosine = Cosine(0.1)
    schedules = [Schedule(0.1), StepDecay(0.1), cosine, Cosine(0.1, floor=0.01)]
    schedules += [Schedule(np.float32(0.2)), StepDecay(0.1, np.float32(0.2), np.int64(3))]
    schedules += [WarmUp(cosine, 3), WarmUp(cosine, 4)]
    texts = [json.dumps(schedule.config()) for schedule in schedules]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule(-0.1),
        lambda: StepDecay(0.1, epochs=0),
        lambda: StepDecay(0.1, factor=float("nan")),
        lambda: Cosine(0.1, epochs=0),
        lambda: Cosine(0.1, floor=-1.0),
        lambda: WarmUp(Schedule(0.1), 0),
        lambda: WarmUp(0.1, 2),
        lambda: Schedule("0.1"),
    ],
)
def test_schedules_that_cannot_be_followed_are_refused_when_they_are_made(make):
    with pytest.raises(ConfigurationError):
        make()


def test_a_schedule_of_somebody_elses_may_have_any_fields():
    @dataclass
    class Milestones(Schedule):
        at_epochs: tuple[int, ...] = (3, 5)
        exponent: float = -0.5

        def at(self, position):
            return self.rate * 10.0 ** (
                self.exponent * sum(e <= position.epoch for e in self.at_epochs)
            )

    assert at(Milestones(1.0), epoch=6) == pytest.approx(0.1)


def test_warm_ups_are_equal_if_all_of_them_is():
    assert WarmUp(Cosine(0.1, epochs=3), 5) == WarmUp(Cosine(0.1, epochs=3), 5)
    assert WarmUp(Cosine(0.1, epochs=3), 5) != WarmUp(Cosine(0.1, epochs=4), 5)
    assert WarmUp(Cosine(0.1, epochs=3), 5) != WarmUp(Cosine(0.1, epochs=3), 6)
