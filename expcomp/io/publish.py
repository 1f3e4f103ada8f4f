from __future__ import annotations
import os, shutil
from contextlib import contextmanager
from pathlib import Path
from expcomp.errors import OutputError
@contextmanager
def publish(out, *, force=False):
    out=Path(out)
    if out.exists() and not force: raise OutputError(f"{out} exists")
    st=out.parent/f".{out.name}.expcomp-stub"
    shutil.rmtree(st,ignore_errors=True); st.mkdir(parents=True)
    try: yield st
    except BaseException:
        shutil.rmtree(st,ignore_errors=True); raise
    if out.exists(): shutil.rmtree(out)
    os.rename(st,out)
