"""VarEmbed on a very small scale."""


def tiny(**advanced):
    """Options of a model that is fitted in a moment, with these of the group ``advanced``."""
    small = {"hidden": 6, "negatives": 16, "batch_streams": 8, "unrolled_tokens": 8}
    if advanced.get("softmax") == "exact":
        del small["negatives"]
    return {"width": 6, "epochs": 1, "advanced": {**small, **advanced}}
