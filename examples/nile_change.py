"""When did the Nile change? Where one regime gives way to another, how sure that is, and what holds before and after.

python examples/nile_change.py
"""

import mercer

table = mercer.datasets.nile()
learner = mercer.ChangeSurface(regimes=2, kernel="C")
model = mercer.GPRegressor(learner, random_state=0).fit(table[["year"]], table["flow"])

change = model.change_
for crossing in change.crossings:
    print(f"change at {crossing.at:.1f}, with 95 % probability between {crossing.low:.0f} and {crossing.high:.0f}")
for regime in change.regimes:
    print(f"{regime.where}: {regime.rows} years, {regime.average:.0f} on average")
for one in change.evidence:
    print(f"{one.regimes} regime(s): BIC {one.bic:.1f}")

print("\nyear  share of the second regime")
years = table[["year"]][24:34]
for year, share, spread in zip(years["year"], change.shares(years)[:, 1], change.shares_std(years)[:, 1], strict=True):
    print(f"{year}  {share:5.2f} +- {2 * spread:.2f}")
