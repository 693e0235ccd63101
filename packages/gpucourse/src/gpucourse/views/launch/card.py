"""Card of a launch: its faults, its cost in plain words, and the costly lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpucourse.views import words
from gpucourse.views.launch import listing, tiles
from gpucourse.views.launch.runs import Observed
from gpucourse.views.page import View, box, escape, head, note, wide
from gpucourse.wording import many
from virtualgpu import sources
from virtualgpu.api import LaunchProfile, TileProfile
from virtualgpu.errors import Location
from virtualgpu.findings import Finding

#: Findings shown on a card; further ones are only counted.
MOST_FINDINGS = 8
#: Launches of one cell that get a card; further ones are only named.
MOST_CARDS = 6
NOTHING = (
    "No kernel was launched in this cell. Write a launch as kernel[grid, block](…), "
    "with both brackets and parentheses."
)
COUNTED = "Counted on the virtual GPU, which measures no time."
# Opacity of the shading of the costliest line, at which text keeps a contrast of 4.5 : 1, also on
# dark pages.
HOTTEST = 0.4
CLEAN = "No race, no bad barrier, no read of unwritten memory, no bad address."

_KINDS = {
    "race": "race",
    "barrier": "barrier",
    "uninitialised": "unwritten memory",
    "memory": "bad address",
    "overflow": "wrapped index",
    "deadlock": "deadlock",
    "stream": "synchronisation",
    "other": "stopped",
}


def card(observed: Observed, timing: str = "") -> View:
    """Return the card of an observed launch; ``timing`` is a sentence about its time."""
    profile = observed.profile
    findings, source = observed.findings, timing or COUNTED
    title, of_tiles = observed.kernel, isinstance(profile, TileProfile)
    if of_tiles:
        title += f"[{_dimensions(observed.grid)}]"
    elif observed.grid:
        title += f"[{_dimensions(observed.grid)}, {_dimensions(observed.block)}]"
    empty = min((*observed.grid, *observed.block), default=0) < 1
    shape = (
        "nothing was launched"
        if profile is None or empty
        else (
            tiles.geometry(observed.grid)
            if of_tiles
            else words.geometry(observed.grid, observed.block)
        )
    )
    markup = [head(title, shape), _findings_markup(findings)]
    text = [f"{title}  {shape}", _findings_text(findings)]
    if profile is not None:
        remarks = (
            tiles.remarks(profile)
            if isinstance(profile, TileProfile)
            else words.remarks(profile.counters, profile.grid, profile.block)
        )
        parts = listing.parts(profile.counters, profile.kernel)
        columns = listing.columns(profile.counters)
        if profile.failed:
            markup.append(note("The launch was stopped. These counts are from before the stop."))
            text.append("The launch was stopped. These counts are from before the stop.")
        drawn, told = tiles.picture(profile) if isinstance(profile, TileProfile) else ("", "")
        markup += [
            _remarks_markup(remarks),
            wide(drawn, "tiles") if drawn else "",
            _listing_markup(parts, columns),
            note(source),
        ]
        text += [
            _remarks_text(remarks),
            *map(_filled, told.splitlines()),
            _listing_text(parts, columns),
            source,
        ]
    return View(box(*markup, label=f"Report of {title}"), "\n\n".join(text))


def cards(observed: Sequence[Observed], most: int) -> View:
    """Return the cards of several launches, one below the other.

    Launches with the same counts share one card. After ``most`` cards the other launches are
    named.
    """
    alike: list[list[Observed]] = []
    for one in observed:
        for group in alike:
            if _alike(group[0], one):
                group.append(one)
                break
        else:
            alike.append([one])
    views = []
    for group in alike[:most]:
        times = f" {len(group)} launches in this cell have exactly these counts."
        views.append(card(group[0], COUNTED + times if len(group) > 1 else ""))
    markup, text = "".join(view.markup for view in views), [view.text for view in views]
    if rest := [one for group in alike[most:] for one in group]:
        left = (
            f"{many(len(rest), 'further launch', 'further launches')} of this cell "
            f"{'is' if len(rest) == 1 else 'are'} left out: {_kernels(rest)}."
        )
        markup += box(note(left))
        text.append(left)
    return View(markup, "\n\n".join(text))


def _alike(one: Observed, other: Observed) -> bool:
    return (
        one.profile is not None
        and one.profile == other.profile
        and [f.message for f in one.findings] == [f.message for f in other.findings]
    )


def from_profile(profile: LaunchProfile, findings: list[Finding]) -> Observed:
    """Return the observation of a launch that ran under a profiler, as in ``%%gpu_report``."""
    return Observed(profile.kernel, profile.grid, profile.block, findings=findings, profile=profile)


def _kernels(observed: Sequence[Observed]) -> str:
    names: dict[str, int] = {}
    for one in observed:
        names[one.kernel] = names.get(one.kernel, 0) + 1
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names.items())


def _dimensions(triple: Sequence[int]) -> str:
    """Return ``4`` or ``(2, 3)``, as in a launch's brackets."""
    parts = list(triple)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return str(parts[0]) if len(parts) == 1 else f"({', '.join(map(str, parts))})"


# -- findings -----------------------------------------------------------------------------------


def _findings_markup(findings: list[Finding]) -> str:
    if not findings:
        return f'<div class="clean"><b class="good">✓</b> {escape(CLEAN)}</div>'
    items = []
    for found in findings[:MOST_FINDINGS]:
        items.append(
            f'<div class="found"><span class="tag">{escape(_KINDS.get(found.kind, found.kind))}'
            f"</span>{escape(_message(found))}"
            + "".join(_place_markup(place) for place in _places(found))
            + (
                f'<div class="small faint">{found.count:,} times in this launch</div>'
                if found.count > 1
                else ""
            )
            + "</div>"
        )
    if more := len(findings) - MOST_FINDINGS:
        items.append(note(f"and {many(more, 'further finding')}") if more > 0 else "")
    return "".join(items)


def _findings_text(findings: list[Finding]) -> str:
    if not findings:
        return f"✓ {CLEAN}"
    lines = []
    for found in findings[:MOST_FINDINGS]:
        lines.append(
            textwrap.fill(
                f"✗ {_KINDS.get(found.kind, found.kind)}: {_message(found)}",
                90,
                subsequent_indent="  ",
            )
        )
        for place in _places(found):
            lines.append(f"    {_where(place)}: {sources.text(place.filename, place.line)}")
        if found.count > 1:
            lines.append(f"    {found.count:,} times in this launch")
    if len(findings) > MOST_FINDINGS:
        lines.append(f"  and {many(len(findings) - MOST_FINDINGS, 'further finding')}")
    return "\n".join(lines)


def _message(found: Finding) -> str:
    """Return the message without its first word if the tag already says it."""
    text = found.message.removeprefix(f"{found.kind}: ")
    return text[:1].upper() + text[1:]


def _places(found: Finding) -> list[Location]:
    places = [place for place in (found.location, found.other) if place and place.line]
    if len(places) == 2 and (places[0].filename, places[0].line) == (
        places[1].filename,
        places[1].line,
    ):
        places.pop()
    return places


def _place_markup(place: Location) -> str:
    code = sources.text(place.filename, place.line)
    shown = f" <code>{escape(code)}</code>" if code else ""
    return f'<div class="small"><span class="faint">{escape(_where(place))}</span>{shown}</div>'


def _where(place: Location) -> str:
    return f"{sources.name(place.filename)} line {place.line}"


# -- counters -----------------------------------------------------------------------------------

_CLASS = {words.GOOD: "good", words.COSTLY: "costly", words.PLAIN: "faint"}
_SPOKEN = {words.GOOD: "good", words.COSTLY: "costly", words.PLAIN: "neutral"}


def _remarks_markup(remarks: list[words.Remark]) -> str:
    rows = "".join(
        f'<tr><td class="sign {_CLASS[r.sign]}" title="{_SPOKEN[r.sign]}">{r.sign}</td>'
        f"<td>{escape(r.topic).replace(' ', '&nbsp;')}</td><td>{escape(r.text)}</td></tr>"
        for r in remarks
    )
    return f"<table>{rows}</table>"


def _remarks_text(remarks: list[words.Remark]) -> str:
    return "\n".join(
        textwrap.fill(f"{r.sign} {r.topic:14} {r.text}", 90, subsequent_indent=" " * 17)
        for r in remarks
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, 90, subsequent_indent="  ")


# -- source -------------------------------------------------------------------------------------


def _listing_markup(parts: list[listing.Part], columns: list[listing.Column]) -> str:
    if not parts:
        return note("The compiler gave no source lines for this kernel.")
    hottest = max((line.cost for part in parts for line in part.lines), default=0) or 1
    heads = "".join(
        f'<th class="n" title="{escape(c.explained)}">{escape(c.title)}</th>' for c in columns
    )
    rows = []
    for number, part in enumerate(parts):
        if number:
            rows.append(
                f'<tr><td></td><td class="faint small" colspan="{len(columns) + 2}">'
                f"{escape(part.title)}</td></tr>"
            )
        rows += [_row(line, columns, hottest) for line in part.lines]
    return wide(
        '<table class="lines"><thead><tr><th class="n">line</th>'
        f'<th>{escape(parts[0].title)}</th><th class="n" title="share of the cost of all lines: '
        'instructions issued, and extra sectors, wavefronts and passes of atomics">cost</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
        "lines",
    )


def _row(line: listing.Line, columns: list[listing.Column], hottest: float) -> str:
    style = ""
    if line.cost >= 0.02:
        share = 0.12 + 0.88 * line.cost / hottest
        style = f' style="background:rgba(230,140,0,{HOTTEST * share:.2f})"'
    cells = "".join(
        f'<td class="n">{escape(c.of(line.counters)) if line.counters else ""}</td>'
        for c in columns
    )
    cost = words.share(line.cost) if line.counters else ""
    number = "n" if style else "n faint"  # faint digits are unreadable on a shade
    return (
        f'<tr{style}><td class="{number}">{line.number or ""}</td>'
        f'<td class="code">{escape(line.code)}</td><td class="n">{cost}</td>{cells}</tr>'
    )


def _listing_text(parts: list[listing.Part], columns: list[listing.Column]) -> str:
    if not parts:
        return "The compiler gave no source lines for this kernel."
    widths = [max(len(c.title), 9) for c in columns]
    head = "line  cost        " + "  ".join(
        c.title.rjust(w) for c, w in zip(columns, widths, strict=True)
    )
    rows = [f"{head}  {parts[0].title}"]
    for number, part in enumerate(parts):
        if number:
            rows.append(f"{' ' * len(head)}  {part.title}")
        for line in part.lines:
            cells = [c.of(line.counters) if line.counters else "" for c in columns]
            cost = words.share(line.cost) if line.counters else ""
            rows.append(
                f"{line.number or '':>4}  {cost:>9}   "
                + "  ".join(c.rjust(w) for c, w in zip(cells, widths, strict=True))
                + f"  {line.code}"
            )
    return "\n".join(row.rstrip() for row in rows)
