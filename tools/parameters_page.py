"""For pages of the site: a signature shows the parameters of a typed dictionary that it unpacks."""

from __future__ import annotations

from typing import Any

import griffe


class Unpacked(griffe.UnpackTypedDictExtension):
    """Leaves the docstring, which describes these parameters, to be read afterwards."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        docstring, func.docstring = func.docstring, None
        super().on_function(func=func, **kwargs)
        func.docstring = docstring
