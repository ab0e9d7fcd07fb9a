"""What every section of the config is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from bertline.pipeline.config.renamed import current_section


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    config_section: ClassVar[str] = ""
    """Its dotted name in a config, where settings of it were renamed."""

    @model_validator(mode="before")
    @classmethod
    def _by_current_names(cls, given: Any) -> Any:
        return current_section(cls.config_section, given) if cls.config_section and isinstance(given, Mapping) else given
