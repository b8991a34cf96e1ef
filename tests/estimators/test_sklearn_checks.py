from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GPRegressor, KernelFunctional, KernelSVC

QUICK = KernelFunctional(hyperkernel="matern-harmonic", subspaces=1, iterations=1, tuning=0)


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
