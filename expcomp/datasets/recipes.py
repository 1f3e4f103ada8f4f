"""How each trainer is told to read a config: settings as data, checked against the releases in `RELEASES`."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Any, NamedTuple

from expcomp.datasets.select import kto_weights

# What the names below were read in. The pin of `datasets` decides the physical profile.
RELEASES = {
    "trl": "TRL 1.16.0 (datasets >= 4.7)",
    "axolotl": "Axolotl 0.21 (datasets 5.0.1)",
    "llama-factory": "LLaMA-Factory 0.9.5 (datasets <= 4.0.0)",
    "ms-swift": "ms-swift 4.6.0 (datasets >= 4.0, < 4.8.5)",
    "verl": "verl 0.9.1",
    "openrlhf": "OpenRLHF 0.11.2 (transformers 5.15.0)",
    "nemo-rl": "NeMo-RL, August 2026",
    "prime-rl": "prime-rl, August 2026",
    "world-model": "TRL 1.16.0 (datasets >= 4.7)",
}


class Recipe(NamedTuple):
    """Settings of one trainer.

    Attributes:
        language: Of `text`: python, yaml, toml or bash.
        text: Template: $dir is the dataset directory, $config, $split, $file, $files, $max_length, $desirable, $undesirable.
        notes: What goes wrong otherwise, one line each.
    """

    language: str
    text: str
    notes: tuple[str, ...] = ()


_LOAD = 'from datasets import load_dataset\n{}\n\ndata = load_dataset("$dir", "$config", split="$split")\n'
_SWIFT = "swift {} --model MODEL \\\n  --dataset $files \\\n  --max_length $limit --truncation_strategy delete --agent_template hermes"
_LLAMA = "dataset_dir: $dir\ndataset: $names\ncutoff_len: $limit\ntemplate: qwen3  # of your model\n"
_LLAMA_NOTES = (
    "Overlong rows are cut at `cutoff_len`. The `openai` formatting would drop text and reasoning beside calls.",
)
_RLHF = "--data.dataset $joined --data.max_len $limit --data.apply_chat_template"
_PREFERENCE = "--data.prompt_key prompt --data.chosen_key chosen --data.rejected_key rejected"

RECIPES: dict[str, Recipe] = {
    "trl-sft": Recipe(
        "python",
        _LOAD.format("from trl import SFTConfig, SFTTrainer")
        + "args = SFTConfig(assistant_only_loss=True, max_length=$max_length)\n"
        'SFTTrainer("MODEL", args=args, train_dataset=data).train()',
        (
            "The default max_length of 1024 cuts rows and then drops those left without loss.",
            "assistant_only_loss=True keeps tool results and user turns out of the loss; its default is False.",
        ),
    ),
    "trl-sft-pc": Recipe(
        "python",
        _LOAD.format("from trl import SFTConfig, SFTTrainer")
        + "args = SFTConfig(max_length=$max_length)  # loss on the completion is the default\n"
        'SFTTrainer("MODEL", args=args, train_dataset=data).train()',
        ("The default max_length of 1024 cuts the end of a row, which is its completion.",),
    ),
    "trl-dpo": Recipe(
        "python",
        _LOAD.format("from trl import DPOConfig, DPOTrainer") + "args = DPOConfig(max_length=$max_length)\n"
        'DPOTrainer("MODEL", args=args, train_dataset=data).train()',
        (
            "Rows whose prompt alone reaches max_length (1024 by default) are dropped.",
            "Longer answers are favoured by the loss; `ld_alpha` below 1 weakens that.",
        ),
    ),
    "trl-reward": Recipe(
        "python",
        _LOAD.format("from trl import RewardConfig, RewardTrainer") + "args = RewardConfig(max_length=$max_length)\n"
        'RewardTrainer("MODEL", args=args, train_dataset=data).train()',
        ("Rows over max_length (1024 by default) are dropped.",),
    ),
    "trl-kto": Recipe(
        "python",
        _LOAD.format("from trl import KTOConfig, KTOTrainer")
        + "args = KTOConfig(\n    max_length=$max_length,\n    per_device_train_batch_size=2,  # at least\n"
        "    desirable_weight=$desirable,\n    undesirable_weight=$undesirable,\n)\n"
        'KTOTrainer("MODEL", args=args, train_dataset=data).train()',
        (
            "Do not sort or group the rows by task: the KL term takes the completion of the row before.",
            "A batch of one row has no such row, so the batch size is 2 or more.",
        ),
    ),
    "trl-grpo": Recipe(
        "python",
        _LOAD.format("from trl import GRPOConfig, GRPOTrainer")
        + "\ndef reward(completions, ground_truth, verifier, **columns):\n"
        "    ...  # one score a completion; every other column of the row arrives as a list\n\n"
        "args = GRPOConfig(num_generations=8, max_completion_length=4096)\n"
        'GRPOTrainer("MODEL", reward_funcs=reward, args=args, train_dataset=data).train()',
        (
            "The tools column is data: TRL does not show it to the model, tools are Python callables (`tools=`).",
            "A loss of 0 at the first steps is normal; look at the gradient and at frac_reward_zero_std.",
            "RLOOTrainer takes the same rows.",
        ),
    ),
    "trl-prm": Recipe(
        "yaml",
        "# Axolotl; TRL had a PRM trainer up to 1.13\nprocess_reward_model: true\nnum_labels: 2\ndatasets:\n- path: $dir\n"
        "  name: $config\n  split: $split\n  type: stepwise_supervised\n"
        '  step_separator: "\\n"\n  train_on_last_step_only: false\nsequence_len: $limit',
        (
            "Labels past the length limit are cut away without a word.",
            "Soft labels would be cut to 0 by int(); these are booleans.",
        ),
    ),
    "axolotl": Recipe(
        "yaml",
        "datasets:\n- path: $dir\n  name: $config\n  split: $split\n  type: chat_template\n  field_messages: messages\n"
        "  field_tools: tools\n  message_field_training: training\n  roles_to_train: [assistant]\n  train_on_eos: turn\n"
        "sequence_len: $limit",
        ("Its DPO reads only role and content of a message: calls would be lost, so there is no such config.",),
    ),
    "llama-factory": Recipe("yaml", "stage: sft\n" + _LLAMA + "mask_history: false", _LLAMA_NOTES),
    "llama-factory-dpo": Recipe("yaml", "stage: dpo\n" + _LLAMA + "pref_loss: sigmoid", _LLAMA_NOTES),
    "llama-factory-kto": Recipe(
        "yaml",
        "stage: kto\n" + _LLAMA + "kto_chosen_weight: $desirable\nkto_rejected_weight: $undesirable",
        _LLAMA_NOTES,
    ),
    "ms-swift": Recipe(
        "bash",
        _SWIFT.format("sft"),
        ("The `loss` flag of a message says whether it is trained; keep `--loss_scale default`.",),
    ),
    "ms-swift-dpo": Recipe("bash", _SWIFT.format("rlhf --rlhf_type dpo")),
    "ms-swift-kto": Recipe(
        "bash",
        _SWIFT.format("rlhf --rlhf_type kto")
        + " \\\n  --desirable_weight $desirable --undesirable_weight $undesirable",
    ),
    "ms-swift-grpo": Recipe(
        "bash",
        _SWIFT.format("rlhf --rlhf_type grpo") + " \\\n  --num_generations 8 --reward_funcs YOUR_REWARD",
        ("`solution` and the statistics reach the reward function as keyword lists.",),
    ),
    "verl-rl": Recipe(
        "bash",
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n  data.train_files=[$joined] data.val_files=[$joined] \\\n"
        "  data.prompt_key=prompt data.reward_fn_key=data_source data.return_raw_chat=True \\\n"
        "  data.max_prompt_length=$limit data.truncation=error \\\n"
        "  reward.custom_reward_function.path=REWARD.py reward.custom_reward_function.name=compute_score",
        (
            "The default scorer raises on a data_source it does not know, so a reward function is needed.",
            "Tools come from a config file (actor_rollout_ref.rollout.multi_turn.tool_config_path), not from the rows.",
        ),
    ),
    "verl-sft": Recipe(
        "bash",
        "torchrun --nproc_per_node=1 -m verl.trainer.sft_trainer \\\n  data.train_files=[$joined] data.messages_key=messages \\\n"
        "  data.pad_mode=no_padding data.max_length=$limit data.truncation=error",
        ("Every message is templated alone; templates that drop earlier reasoning fail that check.",),
    ),
    "openrlhf": Recipe(
        "bash",
        f"deepspeed --module openrlhf.cli.train_sft \\\n  {_RLHF} \\\n  --data.input_key messages --data.multiturn",
        ("Name the Parquet files: of a directory with several configs it cannot choose one.",),
    ),
    "openrlhf-dpo": Recipe(
        "bash",
        f"deepspeed --module openrlhf.cli.train_dpo \\\n  {_RLHF} \\\n  {_PREFERENCE}",
        ("openrlhf.cli.train_rm takes the same options and reads `margin`.", "Default --data.max_len is 512."),
    ),
    "openrlhf-rl": Recipe(
        "bash",
        "python3 -m openrlhf.cli.train_ppo_ray \\\n  --data.prompt_dataset $joined --data.input_key prompt \\\n"
        "  --data.label_key ground_truth --data.apply_chat_template --data.max_len $limit",
    ),
    "nemo-rl": Recipe(
        "yaml",
        "data:\n  train:\n    dataset_name: openai_format\n    data_path: $dir/$file\n    chat_key: messages\n"
        "    tool_key: tools\n    use_preserving_dataset: true\n  max_input_seq_length: $limit",
        (
            "Without use_preserving_dataset, arguments are padded with the keys of all other calls.",
            "It opens one file: join the shards first (cat).",
        ),
    ),
    "nemo-rl-dpo": Recipe(
        "yaml",
        "data:\n  train:\n    dataset_name: PreferenceDataset\n    data_path: $dir/$file\n  max_input_seq_length: $limit",
        ("Rank 0 is the better completion.",),
    ),
    "nemo-rl-grpo": Recipe(
        "yaml",
        "data:\n  train:\n    dataset_name: ResponseDataset\n    data_path: $dir/$file\n    input_key: input\n"
        "    output_key: output\n  max_input_seq_length: $limit",
    ),
    "prime-rl": Recipe(
        "toml",
        '[data]\ntype = "sft"\nname = "$dir"\nsubsets = ["$config"]\nsplits = ["$split"]\nseq_len = $limit\n\n'
        "[data.loss_mask]\nassistant = true\nuser = false\nsystem = false\ntool = false",
        ("RL there takes verifiers tasksets, not files.", "The default seq_len is 128."),
    ),
    "world-model": Recipe(
        "python",
        _LOAD.format("from trl import SFTConfig, SFTTrainer")
        + "args = SFTConfig(assistant_only_loss=True, max_length=$max_length)\n"
        'SFTTrainer("MODEL", args=args, train_dataset=data).train()',
        ("Here the assistant turns are what the environment answered: do not mix them with an agent's rows.",),
    ),
}


def trainer(target: str) -> str:
    """Key of RELEASES for a target."""
    return next(name for name in RELEASES if target == name or target.startswith(f"{name}-"))


def recipe(config: Mapping[str, Any], folder: str = "DIR") -> Recipe:
    """The recipe of a config of a manifest, filled in with its files, lengths and weights."""
    name, statistics = config["config"], config.get("statistics") or {}
    # Splits stand in the order of their names, where test comes before train.
    split = "train" if "train" in config["splits"] else next(iter(config["splits"]), "train")
    files = [f["path"] for f in config["files"] if f["split"] == split]
    kept = [f for f in files if f.endswith(".parquet")] or files
    longest = (statistics.get("tokens") or {}).get("max")
    counts = statistics.get("labels") or {}
    weights = kto_weights(counts.get("true", 0), counts.get("false", 0)) or (1.0, 1.0)
    made = RECIPES[config["target"]]
    text = Template(made.text).substitute(
        dir=folder,
        config=name,
        split=split,
        file=kept[0] if kept else "",
        files=" ".join(f"{folder}/{f}" for f in kept),
        joined=",".join(f"{folder}/{f}" for f in kept),
        names=",".join(_entries(config, split)),
        max_length=longest,
        limit=longest or 32768,
        desirable=weights[0],
        undesirable=weights[1],
    )
    return Recipe(made.language, text, made.notes)


def dataset_info(configs: list[dict[str, Any]]) -> dict[str, Any]:
    """What LLaMA-Factory reads as `dataset_info.json`: one entry a file, because a folder may hold files of one type only."""
    return {
        name: {"file_name": path, "formatting": "sharegpt"} | _KINDS[config["target"]]
        for config in configs
        if config["target"] in _KINDS
        for split in config["splits"]
        for name, path in _entries(config, split).items()
    }


_COLUMNS = {"messages": "conversations", "system": "system", "tools": "tools"}
_KINDS: dict[str, dict[str, Any]] = {
    "llama-factory": {"columns": _COLUMNS},
    "llama-factory-dpo": {"ranking": True, "columns": _COLUMNS | {"chosen": "chosen", "rejected": "rejected"}},
    "llama-factory-kto": {"columns": _COLUMNS | {"kto_tag": "kto_tag"}},
}


def _entries(config: Mapping[str, Any], split: str) -> dict[str, str]:
    """Names and files of a split. Parquet first: its text columns cannot be taken for dates."""
    files = [f["path"] for f in config["files"] if f["split"] == split]
    files = [f for f in files if f.endswith(".parquet")] or files
    stem = config["config"] if split == "train" else f"{config['config']}-{split}"
    return {stem if len(files) == 1 else f"{stem}-{i:05}": path for i, path in enumerate(files)}
