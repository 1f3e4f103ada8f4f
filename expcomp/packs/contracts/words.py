"""Keys of a contract and their spellings, as data: ours and those of contracts that other tools wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTS: tuple[tuple[str, str, bool], ...] = (
    ("outputs", "output", True),
    ("required_outputs", "output", True),
    ("required_output_files", "output", True),
    ("files", "output", True),
    ("artifacts", "artifact", True),
    ("required_artifacts", "artifact", True),
    ("artifact_contracts", "artifact", True),
    ("optional_outputs", "output", False),
)
"""Lists of a contract that name files, the kind of their items, and whether these must be there."""

PATH = ("path", "filename", "artifact", "artifact_path", "artifact_ref", "output_file")

FIELDS: Mapping[str, tuple[str, ...]] = {
    "present": (
        *("fields", "columns", "keys", "required_fields", "required_columns", "required_keys"),
        *("sections", "required_sections"),
    ),
    "non_empty": ("non_empty_fields", "non_empty_columns", "required_non_empty_fields", "required_non_empty_columns"),
    "numeric": ("numeric_fields", "numeric_columns", "required_numeric_fields", "required_numeric_columns"),
}
"""Lists of field names, by check."""

TYPE_MAPS: Mapping[str, tuple[str, ...]] = {
    "type": ("expected_types", "field_types", "column_types"),
    "optional_type": ("optional_types",),
    "list_item": ("list_item_types", "array_item_types"),
}
"""Maps from a field name to a type, by check. `optional_types` also takes fields that are absent or null."""

NUMBERS: Mapping[str, tuple[str, ...]] = {
    "min_bytes": ("min_bytes",),
    "min_rows": ("min_rows",),
    "max_rows": ("max_rows",),
    "row_count": ("row_count", "expected_row_count"),
}
TEXTS: Mapping[str, tuple[str, ...]] = {
    "format": ("format",),
    "sheet": ("sheet", "sheet_name"),
    "delimiter": ("delimiter",),
    "root_type": ("root_type",),
    "encoding": ("encoding",),
}
REQUIREMENTS = (
    *("semantic_checks", "scoring_critical_requirements", "scoring_critical_rules"),
    *("objective_checks", "value_checks"),
)
"""Lists of requirements in words: no program decides them, so that the verdict is `uncertain` at best."""

DECLARED_FILES = "actual_outputs_required_files"
DERIVED = "derived_value_checks"
OUTPUTS_NAME = "actual_outputs.json"
OUTPUTS_REQUIRED = "actual_outputs_required"
"""False at the top of a contract: the folder needs no actual_outputs.json."""

LISTINGS = (
    *("files", "files_created", "deliverable_refs", "artifact_refs", "output_refs", "generated_files"),
    *("created_files", "primary_output_ref", "actual_outputs_ref"),
)
"""Keys of actual_outputs.json that name files."""
LISTED = ("path", "ref", "file", "filename", "artifact_ref", "package_relative_path")
"""Keys that name the file where a listing holds objects."""
