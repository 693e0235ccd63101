"""``cupyx.scipy.special``: special functions, computed with SciPy's routines."""

from __future__ import annotations

import scipy.special

from ._routines import absent, functions

_NAMES = """
bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt chdtr
chdtrc chdtri cosdg cosm1 cotdg digamma ellipj ellipk ellipkm1 ellipkinc ellipeinc entr erf erfc
erfcinv erfcx erfinv exp1 exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc
gammaincc gammainccinv gammaincinv gammaln gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p
j0 j1 k0 k0e k1 k1e kl_div log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv
multigammaln nbdtr nbdtrc nbdtri ndtr ndtri pdtr pdtrc pdtri poch polygamma pseudo_huber psi
radian rel_entr rgamma round sinc sindg softmax spherical_yn sph_harm sph_harm_y stdtr tandg
wright_bessel xlog1py xlogy y0 y1 yn zeta zetac
"""
_LACKING = """
btdtria sph_legendre_p
""".split()

_FUNCTIONS = functions(_NAMES, scipy.special, "cupyx.scipy.special", first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.special", _LACKING, "scipy.special")
