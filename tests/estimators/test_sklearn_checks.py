from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GPRegressor, KernelFunctional, KernelSVC
from mercer.learners.kfo_classes import ClassPolicy

# the conventions do not ask for a good kernel: few are tried, each once
FEW = ClassPolicy(
    strengths=(0.0, 1.0), factors=(0.4, 1.6), usual=(0.8,), finalists=2, final_repeats=1, mixing_steps=2, folds=3,
    repeats=1,
)  # fmt: skip
QUICK = KernelFunctional(
    hyperkernel="matern-harmonic", subspaces=1, iterations=1, tuning=0, average=False, class_policy=FEW
)


@parametrize_with_checks(
    [
        GPRegressor(),
        GPRegressor(kernel="SE(0)*PER(0) + LIN", restarts=2),
        KernelSVC(kernel=QUICK),
        KernelSVC(kernel="linear"),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
