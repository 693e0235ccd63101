"""Random numbers of the stand-in: repeatable, of the right type and distribution."""

from __future__ import annotations

import numpy as np
import pytest

# name: arguments, mean, standard deviation (of the distribution)
LEGACY = {
    "beta": ((2, 3), 0.4, 0.2),
    "binomial": ((10, 0.3), 3, 2.1**0.5),
    "chisquare": ((4,), 4, 8**0.5),
    "exponential": ((2,), 2, 2),
    "f": ((6, 12), 1.2, (2 * 144 * 16 / (6 * 100 * 8)) ** 0.5),
    "gamma": ((3, 2), 6, 12**0.5),
    "geometric": ((0.25,), 4, 12**0.5),
    "gumbel": ((1, 2), 1 + 2 * 0.5772156649, 2 * np.pi / 6**0.5),
    "hypergeometric": ((20, 30, 10), 4, (10 * 0.4 * 0.6 * 40 / 49) ** 0.5),
    "laplace": ((1, 2), 1, 8**0.5),
    "logistic": ((1, 2), 1, 2 * np.pi / 3**0.5),
    "lognormal": ((0, 0.5), np.exp(0.125), (np.exp(0.25) * (np.exp(0.25) - 1)) ** 0.5),
    "logseries": ((0.5,), 1 / np.log(2), (2 / np.log(2) - 1 / np.log(2) ** 2) ** 0.5),
    "negative_binomial": ((5, 0.5), 5, 10**0.5),
    "noncentral_chisquare": ((3, 2), 5, 14**0.5),
    "normal": ((5, 3), 5, 3),
    "pareto": ((5,), 0.25, (5 / (16 * 3)) ** 0.5),
    "poisson": ((4,), 4, 2),
    "power": ((3,), 0.75, (3 / (16 * 5)) ** 0.5),
    "random_sample": ((), 0.5, 12**-0.5),
    "rayleigh": ((2,), 2 * (np.pi / 2) ** 0.5, (8 - 2 * np.pi) ** 0.5),
    "standard_exponential": ((), 1, 1),
    "standard_gamma": ((4,), 4, 2),
    "standard_normal": ((), 0, 1),
    "standard_t": ((8,), 0, (8 / 6) ** 0.5),
    "triangular": ((0, 1, 2), 1, 6**-0.5),
    "uniform": ((5, 10), 7.5, 25**0.5 / 12**0.5),
    "vonmises": ((0, 0), 0, np.pi / 3**0.5),
    "wald": ((2, 4), 2, 2**0.5),
    "weibull": ((1,), 1, 1),
}
NEW = {
    name: LEGACY[name]
    for name in """
    beta binomial chisquare exponential f gamma geometric hypergeometric logseries poisson power
    standard_exponential standard_gamma standard_normal uniform""".split()
}
N = 20_000


def check(numbers, mean, deviation):
    """Within five standard errors of the mean, and of the standard deviation within a tenth."""
    host = numbers.get().astype(float)
    assert host.mean() == pytest.approx(mean, abs=5 * deviation / N**0.5)
    assert host.std() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("name", LEGACY)
def test_the_functions(cp, name):
    arguments, mean, deviation = LEGACY[name]
    cp.random.seed(7)
    numbers = getattr(cp.random, name)(*arguments, size=N)
    assert type(numbers) is cp.ndarray
    check(numbers, mean, deviation)
    cp.random.seed(7)
    assert (getattr(cp.random, name)(*arguments, size=N) == numbers).all()
    assert getattr(cp.random.RandomState(1), name)(*arguments, size=(2, 3)).shape == (2, 3)
    if numbers.dtype.kind == "f":
        assert getattr(cp.random, name)(*arguments, size=3, dtype=np.float32).dtype == np.float32
        with pytest.raises(TypeError, match="only supports float32 and float64"):
            getattr(cp.random, name)(*arguments, size=3, dtype=np.float16)


@pytest.mark.parametrize("name", NEW)
def test_the_generator(cp, name):
    arguments, mean, deviation = NEW[name]
    numbers = getattr(cp.random.default_rng(3), name)(*arguments, size=N)
    assert type(numbers) is cp.ndarray
    check(numbers, mean, deviation)
    assert (getattr(cp.random.default_rng(3), name)(*arguments, size=N) == numbers).all()


def test_one_number_is_an_array_of_no_dimensions(cp):
    assert cp.random.uniform(5, 10).shape == ()
    assert cp.random.default_rng(1).random().shape == ()
    assert cp.random.rand().shape == ()


def test_parameters_on_the_device(cp):
    means = cp.array([0.0, 100.0])
    assert cp.random.normal(means, 1, size=(50, 2)).mean(axis=0).round(-2).tolist() == [0, 100]


def test_integers(cp):
    numbers = cp.random.randint(3, 9, 1000)
    assert (int(numbers.min()), int(numbers.max()), numbers.dtype) == (3, 8, np.int64)
    numbers = cp.random.default_rng(1).integers(3, size=1000, dtype=np.int32, endpoint=True)
    assert (int(numbers.min()), int(numbers.max()), numbers.dtype) == (0, 3, np.int32)
    numbers = cp.random.random_integers(1, 3, 1000)
    assert (int(numbers.min()), int(numbers.max())) == (1, 3)
    assert cp.random.RandomState(1).tomaxint(3).dtype == np.int64


def test_floats_never_round_up_to_one(cp, monkeypatch):
    state = cp.random.RandomState(1)

    class Highest:
        def random_sample(self, size):
            return np.full(size, 1 - 2**-53)

    state._numpy = Highest()
    assert float(state.random_sample(3, dtype=np.float32).max()) < 1


def test_orders(cp):
    a = cp.arange(20)
    assert sorted(cp.random.permutation(a).tolist()) == list(range(20))
    assert sorted(cp.random.permutation(5).tolist()) == list(range(5))
    cp.random.seed(2)
    cp.random.shuffle(a)
    assert a.tolist() != list(range(20))
    assert sorted(a.tolist()) == list(range(20))
    assert set(cp.random.choice(5, 100).tolist()) == set(range(5))
    assert cp.random.choice(a, 3, p=cp.eye(20)[4]).tolist() == [int(a[4])] * 3
    with pytest.raises(TypeError, match=r"must be cupy\.ndarray"):
        cp.random.shuffle(np.arange(3))


def test_several_at_once(cp):
    assert cp.random.multinomial(10, [0.5, 0.5], size=4).sum(axis=1).tolist() == [10] * 4
    assert cp.random.dirichlet([1, 2, 3], 5).sum(axis=1).tolist() == pytest.approx([1] * 5)
    drawn = cp.random.multivariate_normal(cp.array([1, 5]), cp.eye(2), 4000)
    assert drawn.mean(axis=0).tolist() == pytest.approx([1, 5], abs=0.1)


def test_generators_write_where_they_are_told(cp):
    out = cp.zeros(5, np.float32)
    assert cp.random.default_rng(1).random(out=out) is out
    assert bool((out > 0).all())


def test_seeds(cp):
    for seed in (-1, 2**64, 1.5):
        with pytest.raises((TypeError, ValueError), match="Seed must be an integer"):
            cp.random.seed(seed)
    state = cp.random.RandomState(5)
    cp.random.set_random_state(state)
    assert cp.random.get_random_state() is state
    cp.random.reset_states()
    assert cp.random.get_random_state() is not state
    with pytest.raises(TypeError, match="must be an instance of RandomState"):
        cp.random.set_random_state(np.random.RandomState(1))
    bits = cp.random.XORWOW(3)
    assert cp.random.default_rng(bits).bit_generator is bits
    assert (
        cp.random.Generator(cp.random.Philox4x3210(1)).random(3)
        == cp.random.Generator(cp.random.Philox4x3210(1)).random(3)
    ).all()


def test_it_says_whose_numbers_these_are(cp):
    assert "not" in cp.random.__doc__ and "cuRAND" in cp.random.__doc__
