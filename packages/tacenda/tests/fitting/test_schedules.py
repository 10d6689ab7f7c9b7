import json

import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import (
    Constant,
    Cosine,
    FitSettings,
    InverseDecay,
    Plateau,
    Position,
    StepDecay,
    Sweeps,
    WarmUp,
    as_schedule,
    fit,
)


def at(schedule, step=0, epoch=0, fraction=0.0):
    return schedule.at(Position(step, epoch, fraction))


def test_a_number_is_a_constant_rate():
    assert at(as_schedule(0.3), 5, 7) == 0.3


def test_step_decay_by_whole_epochs():
    schedule = StepDecay(1.0, factor=0.1, epochs=3)
    assert [at(schedule, epoch=e) for e in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])


def test_inverse_decay():
    assert at(InverseDecay(1.0, decay=0.5), epoch=2, fraction=0.0) == 0.5


def test_cosine_from_rate_to_floor():
    schedule = Cosine(1.0, epochs=4, floor=0.2)
    assert at(schedule) == 1.0
    assert at(schedule, epoch=2) == pytest.approx(0.6)
    assert at(schedule, epoch=1, fraction=0.999) > at(schedule, epoch=2)
    assert at(schedule, epoch=4) == pytest.approx(0.2)
    assert at(schedule, epoch=9) == pytest.approx(0.2)


def test_plateau_halves_after_patience_and_recovers_its_state():
    schedule = Plateau(1.0, patience=1, minimum=0.3)
    rates = []
    for value in (3.0, 2.0, 2.5, 2.5, 1.0, 1.0, 1.0):
        schedule.observe(value)
        rates.append(at(schedule))
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert schedule.exhausted
    fresh = Plateau(1.0, patience=1, minimum=0.3)
    fresh.load_state(json.loads(json.dumps(schedule.state())))
    assert at(fresh) == 0.25


def test_warm_up_is_linear_and_then_follows():
    schedule = WarmUp(Cosine(1.0, epochs=10), steps=4)
    assert [at(schedule, step=s) for s in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert at(schedule, step=100, epoch=5) == pytest.approx(0.5)


def test_configurations_are_json_and_tell_schedules_apart():
    schedules = [
        Constant(0.1),
        StepDecay(0.1),
        Cosine(0.1),
        Plateau(0.1),
        WarmUp(Plateau(0.1), 3),
        WarmUp(Plateau(0.1), 4),
    ]
    texts = [json.dumps(schedule.config()) for schedule in schedules]
    assert len(set(texts)) == len(texts)
    used = Plateau(0.1)
    used.observe(1.0)
    used.observe(2.0)
    assert used.config() == Plateau(0.1).config()


@pytest.mark.parametrize("make", [lambda: Plateau(0.1, factor=1.5), lambda: WarmUp(Constant(1), 0)])
def test_nonsense_is_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_one_schedule_serves_two_fits_and_an_exhausted_one_ends_them():
    class Worse:
        def __init__(self):
            self.value = 0.0

        def step(self, batch, learning_rate):
            return 1.0, 1

        def evaluate(self):
            self.value += 1.0
            return self.value

        def state(self):
            return {}

        def load_state(self, state):
            pass

    schedule = Plateau(1.0, minimum=0.2)
    settings = FitSettings(epochs=50, learning_rate=schedule)
    histories = [fit(Worse(), Sweeps(), settings) for _ in range(2)]
    assert histories[0] == histories[1]
    assert histories[0].learning_rates == [1.0, 1.0, 0.5, 0.25]
    assert histories[0].stopped == "rate"
