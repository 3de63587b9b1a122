"""The API reference as a page of our own: the schema as plain HTML, nothing from elsewhere."""

from collections.abc import Callable
from typing import Any

from litestar import Request, Response, Router
from litestar.openapi.plugins import OpenAPIRenderPlugin

from services.proxy.admin.errors import failure

Operations = list[dict[str, Any]]
Render = Callable[[Request[Any, Any, Any], Operations], Response[str]]


def router() -> Router:
    """Where page and document live; an unknown path there is answered like any other."""
    return Router("/schema", route_handlers=[], include_in_schema=False, after_request=_own_not_found)


def _own_not_found(response: Response[Any]) -> Response[Any]:
    return failure(404, "Not Found") if response.status_code == 404 else response


class ReferencePage(OpenAPIRenderPlugin):
    """Has the OpenAPI document rendered at the schema's root."""

    def __init__(self, render: Render) -> None:
        super().__init__(path="/")
        self._render = render

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The page."""
        return self._render(request, operations(openapi_schema)).content.encode()


def operations(schema: dict[str, Any]) -> Operations:
    """Every operation by path: ``method``, ``path``, ``summary``, and ``parameters`` with their meanings."""
    return [
        {
            "method": method.upper(),
            "path": path,
            "summary": operation.get("summary", ""),
            "parameters": [_parameter(parameter) for parameter in operation.get("parameters", [])],
        }
        for path, methods in sorted(schema.get("paths", {}).items())
        for method, operation in methods.items()
    ]


def _parameter(parameter: dict[str, Any]) -> dict[str, str]:
    meaning = parameter.get("description") or parameter.get("schema", {}).get("description", "")
    return {"name": parameter["name"], "where": parameter["in"], "meaning": meaning}
