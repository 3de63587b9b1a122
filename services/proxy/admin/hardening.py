"""The headers of every answer of our own routes, errors included: they tell a browser what may run.

Owns no state. Litestar adds an application's headers to its handlers' answers, not to those of its exception
handlers; so errors and pages take them from here too.
"""

# Pages bring their own style sheet and script; nothing inline, nothing from elsewhere, no framing.
CSP = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers then call a form's origin `null`, which is refused.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
