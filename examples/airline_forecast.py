"""Forecast the last year of the airline passengers from the eleven years before it, and see how good the forecast is.

python examples/airline_forecast.py
"""

import mercer

flights = mercer.datasets.airline()
past, future = flights[:-12], flights[-12:]

# A line, a wander around it, and a season whose swing grows.
model = mercer.GPRegressor("LIN*CPER*SE + SE + LIN", random_state=0).fit(past[["month"]], past["passengers"])
mean, std = model.predict(future[["month"]], return_std=True)

print(f"{'month':8}{'forecast':>10}{'95 % band':>16}{'truth':>8}")
inside = 0
for month, centre, spread, truth in zip(future["month"], mean, std, future["passengers"], strict=True):
    low, high = centre - 1.96 * spread, centre + 1.96 * spread
    hit = low < truth < high
    inside += hit
    print(f"{month:%Y-%m} {centre:10.0f}{f'{low:.0f} to {high:.0f}':>16}{truth:8}{'' if hit else '  outside'}")
print(f"\nmean error {abs(mean - future['passengers']).mean():.1f}; {inside} of 12 months inside the band")

seasonal_naive = past["passengers"].to_numpy()[-12:]  # the same month of the year before
print(f"mean error of 'the same as last year': {abs(seasonal_naive - future['passengers']).mean():.1f}")
