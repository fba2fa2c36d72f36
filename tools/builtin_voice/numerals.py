"""English number words: the spoken form of integers, ordinals, years, times and prices."""

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = ("zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth").split()
TENTHS = "_ _ twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth".split()


def cardinal(n, hyphen=" ", join=""):
    """`n` below a billion in words; `hyphen` stands inside `twenty-one`, `join` is `and ` for British hundreds."""
    if n < 0:
        return "minus " + cardinal(-n, hyphen, join)
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (hyphen + ONES[n % 10] if n % 10 else "")
    for size, name in ((1_000_000, "million"), (1000, "thousand"), (100, "hundred")):
        if n >= size:
            rest = n % size
            small = join if rest and rest < 100 else ""
            return cardinal(n // size, hyphen, join) + " " + name + (" " + small + cardinal(rest, hyphen, join) if rest else "")
    raise AssertionError(n)


def ordinal(n, hyphen=" "):
    """`twenty first` for 21; `n` below 100."""
    if n < 20:
        return ORDINALS[n]
    return TENTHS[n // 10] if n % 10 == 0 else TENS[n // 10] + hyphen + ORDINALS[n % 10]


def year(n, hyphen=" "):
    """A year as people say it: `nineteen oh five`, `two thousand six`, `twenty twenty six`."""
    high, low = divmod(n, 100)
    if 2000 <= n < 2010 or n < 1100 or n > 2099:
        return cardinal(n, hyphen)
    if low == 0:
        return cardinal(high, hyphen) + " hundred"
    return cardinal(high, hyphen) + " " + ("oh " + ONES[low] if low < 10 else cardinal(low, hyphen))


def clock(hour, minute, hyphen=" "):
    """`ten forty five`, `nine oh five`, `seven o'clock`."""
    if minute == 0:
        return ONES[hour] + " o'clock"
    return ONES[hour] + " " + ("oh " + ONES[minute] if minute < 10 else cardinal(minute, hyphen))


def plural(n, one, many):
    """The noun that fits the count."""
    return one if n == 1 else many


def money(whole, cents, hyphen=" ", unit=("dollar", "dollars"), part=("cent", "cents")):
    """`three dollars and fifty cents`; either amount may be zero, not both."""
    parts = []
    if whole or not cents:
        parts.append(cardinal(whole, hyphen) + " " + plural(whole, *unit))
    if cents:
        parts.append(cardinal(cents, hyphen) + " " + plural(cents, *part))
    return " and ".join(parts)
