"""Parts that all pages share: a visit, routes, pages of a list, times in forms."""
