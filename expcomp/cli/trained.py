"""What a command line says of the training of a candidate: a job, a profile, a receipt, a report, or that there was none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from expcomp.training.guard import Exposure, ExposureReport
    from expcomp.training.profile import Profile


class Trained:
    """What the command line says of the training of the candidate."""

    def __init__(
        self,
        job: Path | None,
        profile: Path | None,
        receipts: list[Path],
        inventories: list[Path],
        report: Path | None,
        untrained: bool,
    ) -> None:
        given = [
            n
            for n, v in (("--job", job), ("--profile", profile), ("--exposure", report), ("--untrained", untrained))
            if v
        ]
        if len(given) > 1 or (receipts and given and given[0] in ("--exposure", "--untrained")):
            raise UsageError(
                f"{' and '.join(given)}{' and --receipt' if receipts else ''}: one of them says what the candidate saw"
            )
        if not given and not receipts:
            raise UsageError(
                "nothing says what the candidate was trained on; give --job, --profile, --receipt or --exposure, or --untrained"
            )
        if not given and len(receipts) > 1:
            raise UsageError("several --receipt need the --profile that names them; one alone is that of the candidate")
        self.receipts, self.inventories, self.report, self.untrained = receipts, inventories, report, untrained
        self.profile = _profile(job, profile)

    def exposure(self, heldout: list[Path], measured: pl.DataFrame) -> Exposure | ExposureReport:
        """What the held-out guard says of a held-out set and of the tasks that were measured."""
        from expcomp.tables.training import EXPOSURE
        from expcomp.training.documents import read_document
        from expcomp.training.exposure import ExposureIndex
        from expcomp.training.guard import ExposureReport
        from expcomp.training.lineage import check_exposure
        from expcomp.training.looked_for import with_measured
        from expcomp.training.receipts import TrainingReceipt

        if self.report is not None:
            return read_document(ExposureReport, self.report)
        store = self.receipts if self.profile is not None else []
        trained: Any = self.profile
        if trained is None:
            trained = (
                ExposureIndex(EXPOSURE.empty()) if self.untrained else read_document(TrainingReceipt, self.receipts[0])
            )
        held = with_measured(heldout, measured) if heldout else measured
        return check_exposure(trained, held, receipts=store, inventories=self.inventories)


def _profile(job: Path | None, profile: Path | None) -> Profile | None:
    from expcomp.training.documents import read_document
    from expcomp.training.profile import Profile
    from expcomp.training.run.verify import verified_profile

    if job is not None:
        return verified_profile(job)
    return None if profile is None else read_document(Profile, profile)
