"""The API reference as a page of our own: the schema as plain HTML, no script and nothing from elsewhere."""

from html import escape
from typing import Any

from litestar import Request, Response, Router
from litestar.openapi.plugins import OpenAPIRenderPlugin

from services.proxy.admin.errors import failure

HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>MetalAnchor API</title>'
    '<link rel="stylesheet" href="/metalanchor/assets/style.css"></head><body><main>'
    '<h1>MetalAnchor API</h1><p><a href="/metalanchor/">Overview</a> · '
    '<a href="/metalanchor/schema/openapi.json">OpenAPI JSON</a></p>'
)


def router() -> Router:
    """Where page and document live; an unknown path there is answered like any other."""
    return Router("/schema", route_handlers=[], include_in_schema=False, after_request=_own_not_found)


def _own_not_found(response: Response[Any]) -> Response[Any]:
    return failure(404, "Not Found") if response.status_code == 404 else response


class ReferencePage(OpenAPIRenderPlugin):
    """Renders the OpenAPI document at the schema's root."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        """The page."""
        parts = [HEAD]
        for path, methods in sorted(openapi_schema.get("paths", {}).items()):
            for method, operation in methods.items():
                parts.append(_operation(path, method, operation))
        return "".join([*parts, "</main></body></html>"]).encode()


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(_parameter(parameter) for parameter in operation.get("parameters", []))
    table = (
        f"<table><thead><tr><th>Name<th>In<th>Meaning</thead><tbody>{rows}</tbody></table>" if rows else ""
    )
    title = f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
    return f"<section>{title}<p>{escape(operation.get('summary', ''))}</p>{table}</section>"


def _parameter(parameter: dict[str, Any]) -> str:
    meaning = parameter.get("description") or parameter.get("schema", {}).get("description", "")
    cells = (f"<code>{escape(parameter['name'])}</code>", escape(parameter["in"]), escape(meaning))
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells)
