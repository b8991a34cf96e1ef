"""Forecasts of short series: priors learned from other series, an average over scales and trends, learned bands."""
