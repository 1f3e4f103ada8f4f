"""The rule language: references, expressions, conditions. The whole of it is described here; builders and engine share it.

References:
    `arg.amount`, `action.arguments.amount`   an argument of the action; `action.type` its name
    `world.balance`, `before.world.balance`, `state_before.world.balance`   the state when the step began
    `after.world.balance`, `state_after.world.balance`   the state with the effects so far (in effects) or all of them (in templates)
    `world.parts[arg.part_id].stock`   a key that is computed; `world.parts["P-201"]` a key that is no identifier
    `world.jobs[arg.job_id].lines[].qty`   a field of every element: an array; of an object `[]` takes the values
    `step`, `revision`   counters of the session; the step that is running counts from 1

Expressions:
    JSON literals, `true false null`, arrays and objects; `+ - * / // %` on numbers, `+` also on two texts or two arrays;
    `== != < <= > >= in not in`, `and or not`, `a if c else b`; `[p.name for p in world.parts[] if p.stock > 0]`, and the like with
    `{key: value for ...}`, over one array; functions of `expcomp.environments.functions`: `len(x)`, `sum(x[].f)`, `prefix(x)`, ...
    A boolean is never a number. A missing value, a function without a value and a type clash make the whole expression missing,
    except in `has(x)` (whether x is there) and `default(x, y)` (x if it is there). A number past the range of a float, and a text or
    array of more than 16,777,216 characters or elements, is no value; a rule that looks at more than 1,000,000 elements in a step
    is refused.

Conditions (table `conditions`):
    `left op right`; operand kinds: `path` (a state path, tokens allowed), `action_arg` (a name), `literal` (JSON),
    `expr`. `exists` and `not_exists` test presence, null is present; every other operator is false when a side is missing or
    the types clash. Conditions of one `group` hold together; one group is enough.

Effects (table `mutations`):
    `path`: a state path, tokens allowed. `value_json` by `value_ref`: `literal` is JSON in which `{"$action_arg": name}` and texts
    with `{action.arguments.name}` are filled in (a text that is one token keeps the type); `arg`, `before`, `after`, `expr` are
    a JSON string that holds the name of an argument, a state path, or an expression. A `schedule` names in `value_json` (a JSON string)
    the owner of mutations of kind `pending`: they are filled in at once and applied `delay_steps` steps later, before the rules look.

Tokens (in paths and templates):
    `{action.type}`, `{action.arguments.name}`, `{outcome}`, `{state_before.path}`, `{state_after.path}` and `{= expression}`. A path
    may hold those of the action and `{= expression}`; each fills one segment, whatever it holds. In a template of content type
    `application/json` a token becomes the JSON of its value, inside a JSON string the escaped text of it; in other templates
    texts are pasted as they are and all else as JSON. Other braces are text.
"""

from __future__ import annotations

from expcomp.environments.conditions import Condition, Operand, all_hold, any_group, operand
from expcomp.environments.expressions import Expression, expression
from expcomp.environments.paths import PathError, normalise
from expcomp.environments.scope import LanguageError, Scope, Unresolved
from expcomp.environments.templates import StatePath, Template, Token, fill, filled_arguments, state_path, template

__all__ = [
    "Condition",
    "Expression",
    "LanguageError",
    "Operand",
    "PathError",
    "Scope",
    "StatePath",
    "Template",
    "Token",
    "Unresolved",
    "all_hold",
    "any_group",
    "expression",
    "fill",
    "filled_arguments",
    "normalise",
    "operand",
    "state_path",
    "template",
]
