"""The sizing room's names in one place, as the tests call them."""

from logdoctor.size.accounting import (
    Accounting,
    Allotment,
    Plan,
    Settings,
    accounting_for,
    allot,
    logical_bytes_per_token,
    longest,
    plan,
    state_bytes_per_sequence,
)
from logdoctor.size.architecture import (
    Architecture,
    MissingField,
    Refusal,
    UnknownArchitecture,
    UnsupportedValue,
    read_architecture,
    read_config,
)
from logdoctor.size.budget import Budget, Range, Weights, budget, cards, find_card, indexed_weights, measured_weights
from logdoctor.size.measured import read_curve
from logdoctor.size.models import Model, UnknownModel, find_model, load_model, resolve_model
from logdoctor.size.names import known_models
from logdoctor.size.report import LogCheck, Request, check_log, default_settings, report
from logdoctor.size.users import Advice, Case, Curve, Measured, Traffic, endpoints, recommend, users_of, what_if

__all__ = [
    "Accounting",
    "Advice",
    "Allotment",
    "Architecture",
    "Budget",
    "Case",
    "Curve",
    "LogCheck",
    "Measured",
    "MissingField",
    "Model",
    "Plan",
    "Range",
    "Refusal",
    "Request",
    "Settings",
    "Traffic",
    "UnknownArchitecture",
    "UnknownModel",
    "UnsupportedValue",
    "Weights",
    "accounting_for",
    "allot",
    "budget",
    "cards",
    "check_log",
    "default_settings",
    "endpoints",
    "find_card",
    "find_model",
    "indexed_weights",
    "known_models",
    "load_model",
    "logical_bytes_per_token",
    "longest",
    "measured_weights",
    "plan",
    "read_architecture",
    "read_config",
    "read_curve",
    "recommend",
    "report",
    "resolve_model",
    "state_bytes_per_sequence",
    "users_of",
    "what_if",
]
