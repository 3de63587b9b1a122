"""``metalanchor kv-size`` says how much memory a KV cache takes, and what fits into a given one."""

import re
from pathlib import Path
from typing import Any

import click

from services.cli import client
from services.cli.errors import Failure, Unreachable
from services.cli.output import as_json, print_json, print_rows
from services.kvsize import shape as kv
from services.kvsize.fit import lineages_that_fit
from services.kvsize.metadata import kind_of
from services.kvsize.sources import Found, NoSource, from_file, from_server
from services.settings import Settings, load

# The lengths for which the size is shown besides the one asked for, as far as the model goes.
LADDER = (4_096, 32_768, 131_072)
USUAL_CONTEXT = 4_096
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
         "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}  # fmt: skip
NUMBERS = ("layers", "heads", "kv_heads", "head_dim", "full_layers", "window", "state", "latent", "rope_dim")


class Memory(click.ParamType[int]):
    """A size such as 16GiB, 24GB or a number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes; a unit without i counts in thousands."""
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?\s*", str(value).lower())
        if not found or found[2] not in UNITS:
            self.fail(f"{value!r} is no size; write for example 16GiB or 24GB.", param, ctx)
        return int(float(found[1]) * UNITS[found[2]])


@click.command("kv-size")
@click.argument("source", required=False)
@click.option("--model", help="Which of Ollama's models.")
@click.option("--layers", type=click.IntRange(1, 4096), help="Layers.")
@click.option("--heads", type=click.IntRange(1), help="Attention heads.")
@click.option("--kv-heads", type=click.IntRange(1), help="Key-value heads; as many as heads without it.")
@click.option("--head-dim", type=click.IntRange(1), help="Elements of a head.")
@click.option("--full-layers", type=click.IntRange(0), help="Layers that see the whole context.")
@click.option("--window", type=click.IntRange(1), help="Sliding window of the other layers, in tokens.")
@click.option("--state", type=Memory(), help="State of each of the other layers, where these are recurrent.")
@click.option("--latent", type=click.IntRange(1), help="Rank of the compressed latent (MLA).")
@click.option("--rope-dim", type=click.IntRange(0), help="Rotary elements beside the latent (MLA).")
@click.option("--context", type=click.IntRange(1), help="Tokens of a sequence.")
@click.option("--batch", type=click.IntRange(1), help="Sequences held at once: batch, slots, users.")
@click.option(
    "--dtype",
    type=click.Choice(tuple(kv.DTYPES)),
    default="f16",
    show_default=True,
    help="Type of keys, and of values without --dtype-v.",
)
@click.option("--dtype-v", type=click.Choice(tuple(kv.DTYPES)), help="Type of values.")
@click.option("--unified/--split", default=None, help="Whether the sequences share CONTEXT or have it each.")
@click.option(
    "--ubatch", type=click.IntRange(1), default=kv.UBATCH, show_default=True, help="llama.cpp's -ub."
)
@click.option("--swa-full", is_flag=True, help="llama.cpp's --swa-full.")
@click.option("--memory", type=Memory(), help="Say what fits into this much.")
@as_json
def kv_size(source: str | None, model: str | None, memory: int | None, as_json: bool, **given: Any) -> None:
    """Say how much memory a KV cache takes, and how much fits.

    The model is that of SOURCE, a GGUF file or the address of an Ollama or llama-server; else that of the
    numbers given; else that of the backend, configured or served by a running proxy. With --memory also how
    many sequences fit, and how many of the conversations that a running proxy knows.
    """
    settings = load()
    found = _found(settings, source, model, given)
    use = _use(found, given)
    result = describe(found, use)
    if memory is not None:
        result["fits"] = _fits(settings, found, use, memory)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _found(settings: Settings, source: str | None, model: str | None, given: dict[str, Any]) -> Found:
    numbers = {name: given.pop(name) for name in NUMBERS}
    if source is None and any(value is not None for value in numbers.values()):
        return Found(shape=_from_numbers(numbers), source="numbers")
    if any(value is not None for value in numbers.values()):
        raise click.UsageError("Give SOURCE or numbers, not both.")
    source = source or client.served(settings)
    if source is None:
        raise click.UsageError("Name a GGUF file or a server, or give --layers, --heads and --head-dim.")
    try:
        if source.startswith(("http://", "https://")):
            return from_server(source, model)
        return from_file(Path(source).expanduser())
    except NoSource as error:
        raise Failure(str(error)) from None


def _from_numbers(n: dict[str, Any]) -> kv.Shape:
    if n["latent"] is not None:
        if n["layers"] is None or n["rope_dim"] is None:
            raise click.UsageError("MLA needs --layers, --latent and --rope-dim.")
        layers = kv.latent(layers=n["layers"], rank=n["latent"], rope_dim=n["rope_dim"])
        return kv.Shape(name="numbers", attention="MLA", layers=layers)
    missing = [f"--{name.replace('_', '-')}" for name in ("layers", "heads", "head_dim") if n[name] is None]
    if missing:
        raise click.UsageError(f"{' and '.join(missing)} missing.")
    kv_heads = n["kv_heads"] or n["heads"]
    if n["heads"] % kv_heads:
        raise click.UsageError("--heads must be a multiple of --kv-heads.")
    full = n["layers"] if n["full_layers"] is None else n["full_layers"]
    if full > n["layers"] or (full < n["layers"]) != (n["window"] is not None or n["state"] is not None):
        raise click.UsageError("--full-layers goes with --window or --state, which the other layers have.")
    layers = kv.plain(
        layers=n["layers"], kv_heads=kv_heads, head_dim=n["head_dim"], full_layers=full, window=n["window"],
        state=n["state"] or 0,
    )  # fmt: skip
    kinds = [
        kind_of(n["heads"], kv_heads),
        *(["sliding window"] if n["window"] else []),
        *(["hybrid"] if n["state"] else []),
    ]
    return kv.Shape(name="numbers", attention=", ".join(kinds), layers=layers)


def _use(found: Found, given: dict[str, Any]) -> kv.Use:
    context = given["context"] or found.context or min(found.shape.trained or USUAL_CONTEXT, USUAL_CONTEXT)
    return kv.Use(
        context=context,
        sequences=given["batch"] or found.sequences or 1,
        key_type=given["dtype"],
        value_type=given["dtype_v"] or given["dtype"],
        unified=found.unified if given["unified"] is None else given["unified"],
        ubatch=given["ubatch"],
        swa_full=given["swa_full"],
    )


def describe(found: Found, use: kv.Use) -> dict[str, Any]:
    """All figures, in bytes, as `--json` has them."""
    shape = found.shape
    single = [length for length in LADDER if length <= (shape.trained or LADDER[-1])]
    return {
        "source": found.source,
        "model": found.model or shape.name,
        "attention": shape.attention,
        "layers": len(shape.layers),
        "layers_by_reach": _reach(shape),
        "trained_context": shape.trained,
        "key_type": use.key_type,
        "value_type": use.value_type,
        "context": use.context,
        "sequences": use.sequences,
        "unified": use.unified,
        "bytes_per_token": kv.bytes_per_token(shape, use),
        "window_bytes_per_token": kv.window_bytes_per_token(shape, use),
        "state_bytes_per_sequence": kv.state_bytes(shape),
        "bytes": kv.needed_bytes(shape, use),
        "llama_cpp_bytes": kv.allocated_bytes(shape, use),
        "one_sequence": {str(length): kv.sequence_bytes(shape, use, length) for length in single},
        "notes": [*shape.notes, *found.notes],
    }


def _reach(shape: kv.Shape) -> dict[str, int]:
    """How many layers keep what: ``whole context``, ``window of N``, ``state``, ``nothing of its own``."""
    counts: dict[str, int] = {}
    for layer in shape.layers:
        names = [f"window of {layer.window:,}" if layer.window else "whole context"] if layer.key else []
        names += ["state"] if layer.state else []
        name = " and ".join(names) or "nothing of its own"
        counts[name] = counts.get(name, 0) + 1
    return counts


def _fits(settings: Settings, found: Found, use: kv.Use, memory: int) -> dict[str, Any]:
    fits: dict[str, Any] = {
        "memory": memory,
        "tokens_in_one_sequence": kv.tokens_that_fit(found.shape, use, memory),
        "sequences": kv.sequences_that_fit(found.shape, use, memory),
        "lineages": None,
    }
    try:
        page = client.get(settings, "/api/lineages?limit=1000")
    except (Failure, Unreachable):
        return fits
    if isinstance(page, dict) and isinstance(page.get("items"), list):
        fits["lineages"] = lineages_that_fit(page["items"], found.shape, use, memory, found.model)
    return fits


def size_text(count: int) -> str:
    """Bytes in both units that people use: 85.9 GB (80.0 GiB)."""
    return (
        f"{_scaled(count, 1000, 'B')} ({_scaled(count, 1024, 'iB')})"
        if count >= 10**6
        else f"{count:,} bytes"
    )


def _scaled(count: int, base: int, unit: str) -> str:
    power = 4 if count >= base**4 else 3 if count >= base**3 else 2
    return f"{count / base**power:,.1f} {' KMGT'[power]}{unit}"


def _print(result: dict[str, Any]) -> None:
    types = " and ".join(dict.fromkeys((result["key_type"], result["value_type"])))
    reach = ", ".join(f"{count} {name}" for name, count in result["layers_by_reach"].items())
    click.echo(f"{result['model']}: {result['attention']}, {result['layers']} layers ({reach}), in {types}")
    rows = [("bytes a token", f"{result['bytes_per_token']:,}")]
    if result["window_bytes_per_token"]:
        rows.append(("more while within the window", f"{result['window_bytes_per_token']:,} a token"))
    if result["state_bytes_per_sequence"]:
        rows.append(("state a sequence", size_text(result["state_bytes_per_sequence"])))
    many = result["sequences"] > 1
    how = f"{result['sequences']} sequences {'sharing' if result['unified'] else 'of'} " if many else ""
    rows.append((f"{how}{result['context']:,} tokens", size_text(result["bytes"])))
    rows.append(("as llama.cpp allocates it", size_text(result["llama_cpp_bytes"])))
    rows += [
        (f"one of {int(length):,} tokens", size_text(size)) for length, size in result["one_sequence"].items()
    ]
    if "fits" in result:
        rows += _fits_rows(result["fits"], result["context"])
    print_rows([{"what": what, "size": size} for what, size in rows], ("what", "size"))
    for note in result["notes"]:
        click.echo(note, err=True)


def _fits_rows(fits: dict[str, Any], context: int) -> list[tuple[str, str]]:
    into = f"into {size_text(fits['memory'])} fit"
    longest = fits["tokens_in_one_sequence"]
    rows = [
        (into, "one sequence of any length" if longest is None else f"one sequence of {longest:,} tokens"),
        ("or", f"{fits['sequences']:,} sequences of {context:,} tokens"),
    ]
    if (found := fits["lineages"]) is not None:
        count = f"{found['fit']} of {found['live']} live conversations"
        rows.append(("or", f"{count}, the latest first ({found['tokens']:,} tokens)"))
    return rows
