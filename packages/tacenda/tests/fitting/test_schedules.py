import json

import pytest

from tacenda.errors import ConfigurationError
from tacenda.fitting import (
    Annealed,
    Cosine,
    Position,
    Schedule,
    StepDecay,
    WarmUp,
    as_schedule,
)


def at(schedule, step=0, epoch=0, fraction=0.0):
    return schedule.at(Position(step, epoch, fraction))


def test_a_number_is_a_constant_rate():
    assert at(as_schedule(0.3), 5, 7) == 0.3


def test_step_decay_by_whole_epochs():
    schedule = StepDecay(1.0, factor=0.1, epochs=3)
    assert [at(schedule, epoch=e) for e in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])


def test_cosine_from_rate_to_floor():
    schedule = Cosine(1.0, epochs=4, floor=0.2)
    assert at(schedule) == 1.0
    assert at(schedule, epoch=2) == pytest.approx(0.6)
    assert at(schedule, epoch=1, fraction=0.999) > at(schedule, epoch=2)
    assert at(schedule, epoch=4) == pytest.approx(0.2)
    assert at(schedule, epoch=9) == pytest.approx(0.2)


def test_warm_up_is_linear_and_then_follows():
    schedule = WarmUp(Cosine(1.0, epochs=10), steps=4)
    assert [at(schedule, step=s) for s in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert at(schedule, step=100, epoch=5) == pytest.approx(0.5)


def test_a_fit_that_has_not_settled_is_annealed_as_a_cosine():
    plain, annealed = Cosine(1.0, epochs=8, floor=0.1), Annealed(1.0, epochs=8, floor=0.1)
    places = [Position(0, epoch, fraction) for epoch in range(9) for fraction in (0, 0.3)]
    assert [annealed.at(each) for each in places] == [plain.at(each) for each in places]


@pytest.mark.parametrize(
    ("settled", "share", "last"),
    [(4, 0.5, 6), (4, 1.0, 8), (1, 0.5, 2), (2, 0.1, 3), (9, 0.5, 10), (10, 0.5, 10)],
)
def test_a_fit_that_has_settled_is_annealed_from_there(settled, share, last):
    schedule = Annealed(1.0, epochs=10, floor=0.1, share=share)
    begin = Cosine(1.0, epochs=10, floor=0.1).at(Position(0, settled, 0.0))
    assert schedule.last_epoch(settled) == last
    if last > settled:
        middle = (settled + last) / 2
        half = Position(0, int(middle), middle % 1, settled)
        assert schedule.at(Position(0, settled, 0.0, settled)) == pytest.approx(begin)
        assert schedule.at(half) == pytest.approx((begin + 0.1) / 2)
    for epoch in (last, last + 3):
        assert schedule.at(Position(0, epoch, 0.0, settled)) == pytest.approx(0.1)
    warm = WarmUp(schedule, steps=2)
    assert warm.last_epoch(settled) == last
    assert warm.at(Position(9, last, 0.0, settled)) == pytest.approx(0.1)


def test_other_schedules_do_not_mind_whether_a_fit_has_settled():
    for schedule in (Schedule(0.1), StepDecay(0.1), Cosine(0.1), WarmUp(Cosine(0.1), 3)):
        assert schedule.last_epoch(3) is None
        assert schedule.at(Position(7, 5, 0.5, 3)) == schedule.at(Position(7, 5, 0.5))


def test_configurations_are_json_and_tell_schedules_apart():
    schedules = [
        Schedule(0.1),
        StepDecay(0.1),
        Cosine(0.1),
        Cosine(0.1, floor=0.01),
        Annealed(0.1),
        Annealed(0.1, share=0.25),
        WarmUp(Cosine(0.1), 3),
        WarmUp(Cosine(0.1), 4),
    ]
    texts = [json.dumps(schedule.config()) for schedule in schedules]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("make", [lambda: Schedule(-0.1), lambda: WarmUp(Schedule(1.0), 0)])
def test_nonsense_is_refused(make):
    with pytest.raises(ConfigurationError):
        make()
