"""The vocabulary: boards, models, formats, runtimes, operating points, and estimates of their outputs.

Everything here is a frozen value in SI units. The numeric fields of `OperatingPoint` may be arrays that broadcast
against each other, so that one call of `core.predict.scenario.predict` evaluates a whole sweep; the named fields are
scalars. `fields` describes all of them. Never here: formulas, files.
"""

from core.spec.board import Board, PowerMode
from core.spec.catalogue import Catalogue, ResolvedPoint
from core.spec.estimate import Absent, Array, Estimate, Output, Provenance
from core.spec.field import Field
from core.spec.fields import BY_NAME, BY_PATH, FIELDS, NUMBERS, NUMERIC
from core.spec.formats import PRODUCTS, KvFormat, WeightFormat
from core.spec.interval_scale import UNSCALED, HeldOut, IntervalScale
from core.spec.model import CachingLayers, ModelShape, cache_fields
from core.spec.parameters import PARAMETER_NAMES, PARAMETERS, Parameter, PowerModeRule, Prior
from core.spec.point import ADAPTED, COMPOSITE, KV_LAYOUTS, LAYOUTS, POLICIES, SPARSITY_PATTERNS, OperatingPoint
from core.spec.posterior import Posterior
from core.spec.prediction import Prediction
from core.spec.runtime import OWN_RUNTIME, RUNTIME_CLASSES, UNITS, ReselectionCost, Runtime

__all__ = [
    "ADAPTED",
    "BY_NAME",
    "BY_PATH",
    "COMPOSITE",
    "FIELDS",
    "KV_LAYOUTS",
    "LAYOUTS",
    "NUMBERS",
    "NUMERIC",
    "OWN_RUNTIME",
    "PARAMETERS",
    "PARAMETER_NAMES",
    "POLICIES",
    "PRODUCTS",
    "RUNTIME_CLASSES",
    "SPARSITY_PATTERNS",
    "UNITS",
    "UNSCALED",
    "Absent",
    "Array",
    "Board",
    "CachingLayers",
    "Catalogue",
    "Estimate",
    "Field",
    "HeldOut",
    "IntervalScale",
    "KvFormat",
    "ModelShape",
    "OperatingPoint",
    "Output",
    "Parameter",
    "Posterior",
    "PowerMode",
    "PowerModeRule",
    "Prediction",
    "Prior",
    "Provenance",
    "ReselectionCost",
    "ResolvedPoint",
    "Runtime",
    "WeightFormat",
    "cache_fields",
]
