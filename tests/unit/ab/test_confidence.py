"""The confidence sequences: what they allow, how often they are wrong, and whether predictions hold."""

from __future__ import annotations

import math

import numpy
import pytest

from tandem_ab import calibration, shapes
from tandem_common import confidence

EXPERIMENTS = 2000


@pytest.mark.parametrize("name", list(shapes.SHAPES))
def test_equal_settings_give_at_most_one_false_alarm_in_twenty_however_often_one_looks(name: str) -> None:
    alarms = calibration.false_alarms(shapes.SHAPES[name], 7, EXPERIMENTS, 200)
    assert alarms.tossed <= 0.05 and 0 < alarms.signs <= 0.05
    if name == "period of two blocks":
        assert alarms.strict > 0.9, "a strict order takes the disturbance for an effect: what the coin is for"


@pytest.mark.parametrize("name", list(shapes.SHAPES))
@pytest.mark.parametrize("gain", calibration.GAINS)
def test_a_planted_gain_is_found_with_about_the_predicted_number_of_pairs(name: str, gain: float) -> None:
    found = calibration.found(shapes.SHAPES[name], gain, 7, 500, 1000)
    assert found.covered >= 0.94
    assert found.half and found.half_predicted
    assert found.half == pytest.approx(found.half_predicted, rel=0.35, abs=2)
    if found.most:
        assert found.most == pytest.approx(found.most_predicted, rel=0.35, abs=2)


def test_below_eight_pairs_nothing_is_claimed() -> None:
    few = confidence.estimate([0.3] * 7)
    assert few and not few.claims and not few.excludes(0) and few.half == math.inf
    enough = confidence.estimate([0.3, 0.31] * 4)
    assert enough and enough.claims and enough.excludes(0) and not enough.excludes(0.305)
    assert confidence.estimate([]) is None


def test_the_plain_interval_would_be_wrong_more_often() -> None:
    """What the anytime-valid one is for: the t interval of 1.96 standard errors, looked at after every pair."""
    values = shapes.differences(shapes.SHAPES["steady download"], numpy.random.default_rng(7), EXPERIMENTS, 200)
    count = numpy.arange(1, 201)
    mean = numpy.cumsum(values, axis=1) / count
    error = numpy.sqrt(numpy.maximum(numpy.cumsum(values**2, axis=1) / count - mean**2, 0) / count)
    assert (numpy.abs(mean) > 1.96 * error)[:, 7:].any(axis=1).mean() > 0.2


def test_courses_are_what_one_sees_on_the_way() -> None:
    values = numpy.random.default_rng(1).normal(0.1, 0.2, 30)
    mean, half = confidence.courses(values)
    for count in (3, 8, 30):
        seen = confidence.estimate(values[:count])
        assert seen and seen.mean == pytest.approx(mean[count - 1]) and seen.half == pytest.approx(half[count - 1])


def test_pairs_for_a_width_are_the_least_that_give_it() -> None:
    count = confidence.pairs_for_width(0.1, 0.05)
    assert count and confidence.half_width(0.1, count) <= 0.05 < confidence.half_width(0.1, count - 1)
    assert confidence.pairs_for_width(0.0, 0.05) == confidence.LEAST
    assert confidence.pairs_for_width(100.0, 0.001) is None


def test_a_prediction_goes_on_from_the_pairs_there_are() -> None:
    noise = confidence.normal_noise(0.1)
    fresh = confidence.pairs_to_find(0.05, noise)
    half_way = confidence.pairs_to_find(0.05, noise, before=0.05 + noise[5::10])
    assert fresh and half_way and 20 < half_way <= fresh + 5
    assert confidence.pairs_to_find(0.0001, noise) is None


def test_several_comparisons_share_the_error() -> None:
    values = numpy.random.default_rng(3).normal(0.0, 0.1, (EXPERIMENTS, 4, 60))
    alpha = confidence.shared_alpha(4)
    wrong = 0
    for one in values:
        wrong += any((estimate := confidence.estimate(arm, alpha)) and estimate.excludes(0) for arm in one)
    assert alpha == 0.0125 and wrong / EXPERIMENTS <= 0.05


def test_drift_tells_an_effect_that_fades_from_one_that_stays() -> None:
    random = numpy.random.default_rng(5)
    at = numpy.arange(40.0)
    fading = confidence.drift(at, 0.4 - 0.01 * at + random.normal(0, 0.05, 40))
    steady = confidence.drift(at, 0.2 + random.normal(0, 0.05, 40))
    assert fading and fading.clear and fading.slope < 0 and fading.first > 0.25 > 0.15 > fading.last
    assert steady and not steady.clear
    assert confidence.drift(at[:5], at[:5]) is None


def test_the_median_is_told_by_signs_alone() -> None:
    assert confidence.median_interval(range(7)) is None
    assert confidence.median_interval(range(8)) == (0, 7)
    low, high = confidence.median_interval(range(31)) or pytest.fail("no interval")
    assert 0 < low < 15 < high < 30 and low == 30 - high
    random = numpy.random.default_rng(11)
    wrong = 0
    for _ in range(400):
        values = random.lognormal(0.0, 1.5, 40)
        wrong += any(not low <= 1.0 <= high for count in range(8, 41) for low, high in [confidence.median_interval(values[:count])])
    assert wrong / 400 <= 0.05


def test_how_many_values_decide_a_median() -> None:
    assert confidence.values_to_decide(3, 3) == 16  # not all are expected on one side because three were
    assert confidence.values_to_decide(6, 8) == 47
    assert confidence.values_to_decide(4, 8) is None
