"""Types of values: pydantic models, recognized without importing pydantic, and everything that msgspec knows."""

from typing import Any, Protocol, TypeGuard


class PydanticModel(Protocol):
    """The part of pydantic's BaseModel that codecs use."""

    @classmethod
    def model_validate(cls, value: Any) -> Any: ...

    @classmethod
    def model_validate_json(cls, body: bytes) -> Any: ...

    def model_dump(self, *, mode: str) -> Any: ...

    def model_dump_json(self) -> str: ...


def is_pydantic(kind: Any) -> TypeGuard[type[PydanticModel]]:
    """Return True for a class with the methods of pydantic's models."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json")
