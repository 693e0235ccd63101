"""``cupyx.scipy.signal``: convolution, filters and spectra, computed with SciPy's routines."""

from __future__ import annotations

import scipy.signal

from .._routines import absent, functions
from . import windows

_NAMES = """
argrelextrema argrelmax argrelmin bessel bilinear bilinear_zpk butter cheb1ord cheb2ord cheby1
cheby2 chirp choose_conv_method coherence convolve convolve2d correlate correlate2d
correlation_lags cspline1d cspline1d_eval csd czt czt_points decimate deconvolve detrend ellip
ellipord fftconvolve filtfilt find_peaks firls firwin firwin2 freqs freqs_zpk freqz freqz_sos
freqz_zpk gammatone gauss_spline gausspulse get_window group_delay hilbert hilbert2 iircomb
iirdesign iirfilter iirnotch iirpeak istft kaiser_atten kaiser_beta kaiserord lfilter lfilter_zi
lfiltic lombscargle lp2bp lp2bs lp2hp lp2lp max_len_seq medfilt medfilt2d minimum_phase normalize
oaconvolve order_filter peak_prominences peak_widths periodogram qspline1d qspline1d_eval remez
resample resample_poly savgol_coeffs savgol_filter sawtooth sepfir2d sos2tf sos2zpk sosfilt
sosfilt_zi sosfiltfilt sosfreqz spectrogram square stft symiirorder1 symiirorder2 tf2sos tf2zpk
unit_impulse upfirdn vectorstrength welch wiener zoom_fft zpk2sos zpk2tf
"""
_LACKING = """
CZT StateSpace TransferFunction ZerosPolesGain ZoomFFT dlti lti morlet2 cwt ricker
""".split()

_FUNCTIONS = functions(_NAMES, scipy.signal, "cupyx.scipy.signal", first_on_device=False)
globals().update(_FUNCTIONS)
__all__ = [*_FUNCTIONS, "windows"]
__getattr__ = absent("cupyx.scipy.signal", _LACKING, "scipy.signal")
