from __future__ import annotations
import hashlib
def problem(ref):
    r=ref.strip().replace("\\","/")
    if not r: return "empty_ref"
    if r.startswith("/"): return "absolute_ref"
    if ".." in r.split("/"): return "dotdot_ref"
    return None
def normalise(ref):
    if problem(ref): return None
    r=ref.strip().replace("\\","/")
    while r.startswith("./"): r=r[2:]
    return r
def evidence_id(ref): return "evidence_"+hashlib.sha256(ref.encode()).hexdigest()[:16]
def visibility_name(ref): return "hidden_excluded" if ref.startswith("hidden") or "/hidden" in ref or ref.endswith("verifier_private_rubric.json") else "visible"
def kind_name(ref):
    if ref.startswith("task/"): return "task_spec"
    if "/artifacts/" in ref: return "artifact"
    return "package_file"
