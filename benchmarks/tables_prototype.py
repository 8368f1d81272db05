"""The figures of an earlier prototype of the blend, on splits of its own: what is expected of this one.

Test RMSE in deviations of the target, or error rate; 8000 training rows at most, 5 folds, three
families, rounds 0 to 3. The first seven are single choices with 1500 landmarks.
"""

from __future__ import annotations

PROTOTYPE = {
    "uci_concrete": 0.189,
    "uci_airfoil": 0.160,
    "uci_energy": 0.031,
    "uci_wine": 0.406,
    "abalone": 0.678,
    "uci_skillcraft": 0.654,
    "uci_sml": 0.032,
    "uci_parkinsons": 0.034,
    "cpu_act": 0.121,
    "uci_elevators": 0.338,
    "uci_pol": 0.081,
    "bike_hourly": 0.207,
    "california_housing": 0.414,
    "uci_kin40k": 0.067,
    "uci_protein": 0.581,
    "energydata_appliances": 0.696,
    "spambase": 0.037,
    "letter": 0.026,
    "shuttle": 0.0010,
    "elec2": 0.200,
    "covtype": 0.166,
    "a9a_adult": 0.148,
    "ijcnn1": 0.011,
}
