"""The colours of the heat-map; ink and paper are both set, so it does not matter what is around it."""

__all__ = ["DARK", "HEAD", "HEAT", "LIGHT", "STRENGTH", "STYLE"]

Colour = tuple[int, int, int]

#: Ink and paper on a light and on a dark screen, red, green and blue of 255.
LIGHT: tuple[Colour, Colour] = ((24, 24, 27), (255, 255, 255))
DARK: tuple[Colour, Colour] = ((244, 244, 245), (24, 24, 27))
#: What is laid over the paper, at most with this opacity.
HEAT: Colour = (214, 84, 20)
STRENGTH = 0.75


def _rgb(colour: Colour) -> str:
    return f"rgb({colour[0]}, {colour[1]}, {colour[2]})"


def _theme(ink: Colour, paper: Colour) -> str:
    return f".tacenda-surprisal {{ color: {_rgb(ink)}; background: {_rgb(paper)}; }}"


_OVER = f"{HEAT[0]}, {HEAT[1]}, {HEAT[2]}"

STYLE = f"""
{_theme(*LIGHT)}
.tacenda-surprisal {{ font: 1.05rem/1.9 Georgia, serif; padding: 1.2em 1.5em; max-width: 46em; margin: auto; }}
.tacenda-surprisal h1 {{ font: 600 1.3rem/1.4 system-ui, sans-serif; }}
.tacenda-surprisal p {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.tacenda-surprisal p span {{
  background: rgba({_OVER}, calc(var(--heat) * {STRENGTH})); border-radius: 3px; padding: 0.12em 0;
}}
.tacenda-surprisal .oov {{ text-decoration: underline dotted; text-underline-offset: 0.2em; }}
.tacenda-surprisal .end {{ font-size: 0.7em; margin-left: 0.15em; }}
.tacenda-surprisal .legend, .tacenda-surprisal .facts {{ font: 0.8rem/1.6 system-ui, sans-serif; }}
.tacenda-surprisal .facts {{ white-space: normal; border-top: 1px solid rgba(128, 128, 128, 0.5); padding-top: 0.5em; }}
.tacenda-surprisal .scale {{
  height: 0.9em; border-radius: 3px; max-width: 24em;
  background: linear-gradient(to right, rgba({_OVER}, 0), rgba({_OVER}, {STRENGTH}));
  border: 1px solid rgba(128, 128, 128, 0.5);
}}
.tacenda-surprisal .marks {{ display: flex; justify-content: space-between; max-width: 24em; }}
@media (prefers-color-scheme: dark) {{ {_theme(*DARK)} }}
@media print {{ .tacenda-surprisal span {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }} }}
"""

HEAD = f"""<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
body {{ margin: 0; background: {_rgb(LIGHT[1])}; }}
@media (prefers-color-scheme: dark) {{ body {{ background: {_rgb(DARK[1])}; }} }}
</style>
"""
