#!/usr/bin/env bash
# The client stage of `.ci/run`: an environment with TRL, datasets of real traces and of packages, the acceptance check, these tests.
#   run.sh prepare FOLDER   make the environments there
#   run.sh FOLDER           run the stage with them; EXPCOMP_REFERENCE names the samples
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$1" = prepare ]; then
  mkdir -p "$2"
  python3 -m venv "$2/env"
  "$2/env/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0
  "$2/env/bin/pip" install --quiet --disable-pip-version-check -c tests/clients/constraints.txt -r tests/clients/requirements.txt -e .
  tests/clients/install_trainers.sh "$2/trainers" "$2/env/bin/pip"
  # Ray has an environment of its own: its dependencies and the trainers' need not agree.
  python3 -m venv "$2/ray"
  "$2/ray/bin/pip" install --quiet --disable-pip-version-check -c tests/clients/constraints.txt -e '.[ray,remote]' 'moto[server]' s3fs pytest hypothesis
  exit
fi
env=$1/env
export EXPCOMP_TRAINERS=$1/trainers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=("$EXPCOMP_REFERENCE/traces")
tools=$EXPCOMP_REFERENCE/../tools
if [ -f "$tools/make_packages.py" ]; then
  "$env/bin/python" "$tools/make_packages.py" --out "$work/packages" --packages 12 --steps 12 --seed 7
  sources+=("$work/packages")
fi
"$env/bin/expcomp" compile "${sources[@]}" --out "$work/compiled" --quiet
"$env/bin/expcomp" dataset "$work/compiled" --to all --out "$work/given" --quiet
"$env/bin/expcomp" verify "$work/given"
export EXPCOMP_DATASETS=$work/given OMP_NUM_THREADS=1
# On two cores: the acceptance check beside the tests. JSONL is checked and rendered, too; it holds the same rows.
smoke=
if [ -f "$tools/trl_smoke.py" ]; then
  "$env/bin/python" "$tools/trl_smoke.py" "$work/given" --expect sft,sft_pc,dpo,grpo,kto,reward,prm \
    --formats parquet --max-rows 16 --max-chars 16000 >"$work/smoke.log" 2>&1 &
  smoke=$!
fi
failed=0
"$env/bin/python" -m pytest tests/clients -p no:cacheprovider || failed=1
"$1/ray/bin/python" -m pytest tests/clients/test_ray.py tests/clients/test_s3.py -p no:cacheprovider --show-capture=no || failed=1
if [ -n "$smoke" ]; then
  wait "$smoke" || failed=1
  cat "$work/smoke.log"
  tail -n 1 "$work/smoke.log" | grep -q ' 0 failed$' || failed=1
fi
exit "$failed"
