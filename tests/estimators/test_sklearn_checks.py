from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GPRegressor


@parametrize_with_checks([GPRegressor(), GPRegressor(kernel="SE(0)*PER(0) + LIN", restarts=2)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
