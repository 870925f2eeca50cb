"""Text that was read from files, as it may be shown."""


def harmless(text: str) -> str:
    r"""`text` with everything that a terminal or a browser would act on as its code, such as `\x1b`.

    These are control characters, among them those that begin ANSI escapes; characters without a shape, among
    them those that turn the direction of writing; and lone surrogates, which stand for undecodable bytes.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
