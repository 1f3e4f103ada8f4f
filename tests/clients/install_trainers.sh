#!/usr/bin/env bash
# Other trainers' packages, without their dependencies, into a folder of their own: install_trainers.sh FOLDER [PIP...]
# Their dataset classes are imported from there (tests/clients/stubs); nothing of them is in this repository.
set -euo pipefail
folder=$1
shift
pip=("${@:-pip}")
get() {
  "${pip[@]}" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --no-compile --target "$@"
}
# addict and colorama are what Axolotl's dataset classes need of its dependencies.
get "$folder" verl==0.9.1 openrlhf==0.11.2 axolotl==0.21.0 llamafactory==0.9.5 ms-swift==4.6.0 addict==2.4.0 colorama==0.4.6
# The newest `datasets` that LLaMA-Factory 0.9.5 allows, with the releases that it can work with.
get "$folder/datasets4" datasets==4.0.0 dill==0.3.8 multiprocess==0.70.16 huggingface_hub==0.34.4 fsspec==2025.3.0
