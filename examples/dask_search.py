"""Search on a Dask cluster: here two processes of this machine, elsewhere the workers of many machines.

python examples/dask_search.py
"""

import joblib
from dask.distributed import Client, LocalCluster, get_task_stream

import mercer


def search(jobs: int) -> mercer.GPRegressor:
    flights = mercer.datasets.airline()
    small = mercer.GrammarSearch(bases=["SE", "PER", "LIN"], max_depth=1, n_jobs=jobs)
    return mercer.GPRegressor(kernel=small, random_state=0).fit(flights[["month"]], flights["passengers"])


# One thread for each worker: a kernel is fitted on one core, and more workers fit more kernels at a time.
# Workers are fresh processes that import this file, so the work stands below this line.
if __name__ == "__main__":
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        get_task_stream(client) as sent,
        joblib.parallel_config(backend="dask"),
    ):
        print(f"workers       {len(client.scheduler_info()['workers'])}")
        found = search(jobs=-1)  # the cluster decides how many at a time; with 1, nothing would be sent to it
    print(f"tasks sent    {len(sent.data)}")
    alone = search(jobs=1)
    print(f"on Dask       {found.explain().expression}, BIC {found.bic_:.1f}")
    print(f"one process   {alone.explain().expression}, BIC {alone.bic_:.1f}")
    print(f"kernels tried {len(found.candidates_)}")
