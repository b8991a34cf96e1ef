"""The exact engine for one large matrix on a GPU; its work is in exact_device.py, which brings PyTorch with it."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.compute.program import Program
from mercer.inference.contract import Data, Engine, Evidence
from mercer.inference.exact import ExactPosterior
from mercer.inference.likelihood import Likelihood, gaussian_noise
from mercer.kernels.domains import Array


@dataclass(frozen=True)
class DeviceExact(Engine):
    """Exact inference for as many rows as one N x N matrix fits on a device."""

    device: str = "cuda"

    name = "exact"
    exact = True

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the log evidence and, if asked, its gradient and the leave-one-out score."""
        from mercer.inference.exact_device import Where, evidence_on

        noise = gaussian_noise(likelihood, self.name)
        return evidence_on(Where(self.device), program, values, noise, data, gradient)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> ExactPosterior:
        """Return the posterior, keeping the factor on the device."""
        from mercer.inference.exact_device import Where, posterior_on

        noise = gaussian_noise(likelihood, self.name)
        return posterior_on(Where(self.device), program, values, noise, data)
