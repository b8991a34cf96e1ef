"""Small data sets that travel with Mercer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["airline", "nile"]

# Monthly totals of international airline passengers in thousands, one line for each year from 1949.
# G. E. P. Box and G. M. Jenkins, Time Series Analysis: Forecasting and Control (1970), series G.
AIRLINE_PASSENGERS = (
    (112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118),
    (115, 126, 141, 135, 125, 149, 170, 170, 158, 133, 114, 140),
    (145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166),
    (171, 180, 193, 181, 183, 218, 230, 242, 209, 191, 172, 194),
    (196, 196, 236, 235, 229, 243, 264, 272, 237, 211, 180, 201),
    (204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229),
    (242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278),
    (284, 277, 317, 313, 318, 374, 413, 405, 355, 306, 271, 306),
    (315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336),
    (340, 318, 362, 348, 363, 435, 491, 505, 404, 359, 310, 337),
    (360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405),
    (417, 391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432),
)

# Annual flow of the Nile at Aswan in 10^8 cubic metres from 1871, twenty years a line. From 1899 on it is lower: the
# climate changed, and the building of the first Aswan dam began in 1898. G. W. Cobb, Biometrika 65 (1978), 243-251.
NILE_FLOW = (
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
)  # fmt: skip


def airline() -> pd.DataFrame:
    """Monthly international airline passengers, January 1949 to December 1960, in thousands (144 rows)."""
    import pandas as pd

    months = pd.date_range("1949-01-01", periods=144, freq="MS")
    return pd.DataFrame({"month": months, "passengers": [total for year in AIRLINE_PASSENGERS for total in year]})


def nile() -> pd.DataFrame:
    """Annual flow of the Nile at Aswan, 1871 to 1970, in 10^8 cubic metres (100 rows)."""
    import pandas as pd

    return pd.DataFrame({"year": range(1871, 1971), "flow": NILE_FLOW})
