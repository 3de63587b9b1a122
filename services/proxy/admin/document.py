"""The OpenAPI document: what Litestar reads off the routes, and what it cannot know of them. Pure.

That is the one shape of all errors (`errors.failure`), that a route by id may find nothing, and that pages
are HTML, errors included. tests/safety/test_document.py asks every route whether the document is true.
"""

from dataclasses import fields
from http import HTTPStatus
from typing import Any

from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import OpenAPI

Json = dict[str, Any]

PAGES = "pages"
_TEXT = {"type": "string"}
_FAILURE = {
    "type": "object",
    "description": "An error: a code for programs, a sentence for people.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": _TEXT, "message": _TEXT},
        }
    },
}
_PAGE: Json = {"text/html": {"schema": _TEXT}}
_ERROR: Json = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
_HEADER = {"X-MetalAnchor-Error": {"schema": _TEXT, "description": "That the answer is the proxy's own."}}


class Document(OpenAPI):
    """The document, completed when it is written."""

    def to_schema(self) -> Json:
        """The document as JSON values."""
        return completed(super().to_schema())


class DocumentConfig(OpenAPIConfig):
    """The configuration that makes such a document."""

    def to_openapi_schema(self) -> OpenAPI:
        """The document without its paths, which Litestar adds."""
        made = super().to_openapi_schema()
        return Document(**{field.name: getattr(made, field.name) for field in fields(made) if field.init})


def completed(document: Json) -> Json:
    """The same document with the errors of every route and the type of every page."""
    document.setdefault("components", {}).setdefault("schemas", {})["Failure"] = _FAILURE
    for name in bodies_of(document):
        document["components"]["schemas"][name]["additionalProperties"] = False
    for path, methods in document.get("paths", {}).items():
        for operation in methods.values():
            if isinstance(operation, dict):
                _complete(path, operation)
    return document


def bodies_of(document: Json) -> set[str]:
    """The schemas of what is posted: all of ours refuse members that they do not name."""
    found = set()
    for methods in document.get("paths", {}).values():
        for operation in methods.values():
            body = operation.get("requestBody", {}) if isinstance(operation, dict) else {}
            for media in body.get("content", {}).values():
                found.add(media.get("schema", {}).get("$ref", "").rpartition("/")[2])
    return found & set(document["components"]["schemas"])


def _complete(path: str, operation: Json) -> None:
    page = PAGES in operation.get("tags", ())
    responses = operation["responses"]
    for status, response in responses.items():
        if page and status < "400":
            response["content"] = _PAGE
    for status in [status for status in responses if status >= "400"] + (["404"] if "{" in path else []):
        responses[status] = _error(HTTPStatus(int(status)).phrase, page=page)
    responses["default"] = _error("Refused or failed; the code says why.", page=page)


def _error(description: str, *, page: bool) -> Json:
    return {
        "description": description,
        "headers": _HEADER,
        "content": {**_ERROR, **_PAGE} if page else _ERROR,
    }
