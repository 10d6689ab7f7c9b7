"""Word vectors with a morphological prior: `VarEmbed`, its baseline `SumEmbed`, and segmenters."""
