#!/usr/bin/env bash
# The exports of environments under OpenEnv and verifiers, each in an environment of its own: they need two releases of `mcp`.
#   run_environments.sh FOLDER   make what is not there below FOLDER, then run the tests
# Not part of `.ci/run`: the two installations alone take about two minutes of one processor.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
failed=0
for pair in 'openenv-core[core]==0.3.0 test_openenv' 'verifiers==0.4.0 test_verifiers'; do
  read -r library tests <<<"$pair"
  env=$folder/$tests
  if [ ! -x "$env/bin/pytest" ]; then
    python3 -m venv "$env"
    "$env/bin/pip" install --quiet --disable-pip-version-check "$library" pytest hypothesis jsonschema -e .
  fi
  # A test that skips as its library is missing would say nothing.
  "$env/bin/python" -m pytest "tests/environments/exports/$tests.py" -p no:cacheprovider -rs | tee "$folder/$tests.log" || failed=1
  if grep -q 'is not installed' "$folder/$tests.log"; then failed=1; fi
done
exit "$failed"
