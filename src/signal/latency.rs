//! Quantiles of the load latency over the window, from the applications' histograms.
