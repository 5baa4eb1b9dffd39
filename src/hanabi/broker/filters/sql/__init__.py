"""SQL92 expressions: lexer, parser, evaluator."""
