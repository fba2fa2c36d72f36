//! Units behind a number: `5 km`, `20°C`, `60 mph`, `16 GB/s`, `$5/month`.

use super::cursor::Cursor;
use super::numbers::plural;

/// Sign, one, many (empty: the regular plural).
#[rustfmt::skip]
const UNITS: &[(&str, &str, &str)] = &[
    // lengths, areas, volumes
    ("km^2", "square kilometer", ""), ("m^2", "square meter", ""), ("cm^2", "square centimeter", ""), ("mm^2", "square millimeter", ""),
    ("m^3", "cubic meter", ""), ("cm^3", "cubic centimeter", ""), ("km2", "square kilometer", ""), ("m2", "square meter", ""),
    ("m3", "cubic meter", ""), ("sq ft", "square foot", "square feet"), ("sq. ft.", "square foot", "square feet"), ("sq m", "square meter", ""),
    ("km", "kilometer", ""), ("cm", "centimeter", ""), ("mm", "millimeter", ""), ("μm", "micrometer", ""), ("um", "micrometer", ""),
    ("nm", "nanometer", ""), ("m", "meter", ""), ("mi", "mile", ""), ("ft", "foot", "feet"), ("in.", "inch", ""), ("yd", "yard", ""), ("yds", "yard", ""),
    ("ha", "hectare", ""), ("l", "liter", ""), ("L", "liter", ""), ("ml", "milliliter", ""), ("mL", "milliliter", ""), ("cl", "centiliter", ""),
    ("dl", "deciliter", ""), ("gal", "gallon", ""), ("px", "pixel", ""), ("MP", "megapixel", ""),
    ("tsp", "teaspoon", ""), ("tbsp", "tablespoon", ""),
    // masses
    ("kg", "kilogram", ""), ("mg", "milligram", ""), ("μg", "microgram", ""), ("mcg", "microgram", ""), ("g", "gram", ""),
    ("lbs", "pound", ""), ("lb", "pound", ""), ("oz", "ounce", ""),
    // times, rates
    ("hrs", "hour", ""), ("hr", "hour", ""), ("h", "hour", ""), ("mins", "minute", ""), ("min", "minute", ""), ("secs", "second", ""),
    ("sec", "second", ""), ("ms", "millisecond", ""), ("μs", "microsecond", ""), ("us", "microsecond", ""), ("ns", "nanosecond", ""), ("s", "second", ""),
    ("yrs", "year", ""), ("yr", "year", ""), ("kmh", "kilometer per hour", "kilometers per hour"), ("kph", "kilometer per hour", "kilometers per hour"),
    ("mph", "mile per hour", "miles per hour"), ("fps", "frame per second", "frames per second"), ("rpm", "revolution per minute", "revolutions per minute"),
    ("Hz", "hertz", "hertz"), ("kHz", "kilohertz", "kilohertz"), ("MHz", "megahertz", "megahertz"), ("GHz", "gigahertz", "gigahertz"),
    // electricity, energy, pressure
    ("kWh", "kilowatt hour", ""), ("Wh", "watt hour", ""), ("mW", "milliwatt", ""), ("kW", "kilowatt", ""), ("MW", "megawatt", ""),
    ("GW", "gigawatt", ""), ("W", "watt", ""), ("mV", "millivolt", ""), ("kV", "kilovolt", ""), ("V", "volt", ""), ("mAh", "milliamp hour", ""),
    ("mA", "milliamp", ""), ("Ω", "ohm", ""), ("kΩ", "kilohm", ""), ("kJ", "kilojoule", ""), ("J", "joule", ""), ("kcal", "kilocalorie", ""), ("cal", "calorie", ""),
    ("hPa", "hectopascal", ""), ("kPa", "kilopascal", ""), ("Pa", "pascal", ""), ("psi", "P S I", "P S I"), ("dB", "decibel", ""), ("hp", "horsepower", "horsepower"),
    // data
    ("kB", "kilobyte", ""), ("KB", "kilobyte", ""), ("MB", "megabyte", ""), ("GB", "gigabyte", ""), ("TB", "terabyte", ""), ("PB", "petabyte", ""),
    ("KiB", "kibibyte", ""), ("MiB", "mebibyte", ""), ("GiB", "gibibyte", ""), ("TiB", "tebibyte", ""),
    ("Kb", "kilobit", ""), ("Mb", "megabit", ""), ("Gb", "gigabit", ""), ("kbps", "kilobit per second", "kilobits per second"),
    ("Mbps", "megabit per second", "megabits per second"), ("Gbps", "gigabit per second", "gigabits per second"), ("ppm", "part per million", "parts per million"),
];

/// What may stand below the fraction bar besides the units themselves.
#[rustfmt::skip]
const DIVISORS: &[(&str, &str)] = &[
    ("d", "day"), ("day", "day"), ("wk", "week"), ("week", "week"), ("mo", "month"), ("month", "month"), ("y", "year"), ("year", "year"),
    ("hour", "hour"), ("minute", "minute"), ("second", "second"), ("night", "night"), ("person", "person"), ("user", "user"),
];

/// Takes a unit, with or without a space before it, and "per" another; one or many of it.
pub(super) fn unit(cursor: &mut Cursor<'_>, one: bool) -> Option<String> {
    let mut ahead = *cursor;
    ahead.space();
    if ahead.eat("°") {
        let scale = ["C", "F"].into_iter().find(|sign| {
            let mut letter = ahead;
            letter.space();
            let found = letter.eat(sign) && letter.word_ends();
            if found {
                ahead = letter;
            }
            found
        });
        *cursor = ahead;
        let degrees = if one { "degree" } else { "degrees" };
        return Some(match scale {
            Some("C") => format!("{degrees} Celsius"),
            Some(_) => format!("{degrees} Fahrenheit"),
            None => degrees.to_owned(),
        });
    }
    let (singular, many) = take(&mut ahead)?;
    *cursor = ahead;
    let name = match (one, many) {
        (true, _) => singular.to_owned(),
        (false, "") => plural(singular),
        (false, many) => many.to_owned(),
    };
    Some(format!("{name}{}", per(cursor)))
}

/// `/h` is " per hour"; empty where no divisor follows.
pub(super) fn per(cursor: &mut Cursor<'_>) -> String {
    let mut ahead = *cursor;
    if !ahead.eat("/") {
        return String::new();
    }
    let divisor = DIVISORS.iter().find_map(|&(sign, name)| {
        let mut word = ahead;
        (word.eat(sign) && word.word_ends()).then_some((word, name))
    });
    let divisor = divisor.or_else(|| {
        let mut word = ahead;
        take(&mut word).map(|(name, _)| (word, name))
    });
    divisor.map_or_else(String::new, |(after, name)| {
        *cursor = after;
        format!(" per {name}")
    })
}

/// The longest unit that comes next as a whole word.
fn take(cursor: &mut Cursor<'_>) -> Option<(&'static str, &'static str)> {
    let fits = |sign: &str| {
        let mut ahead = *cursor;
        (ahead.eat(sign) && ahead.word_ends() && !ahead.rest().starts_with('\'')).then_some(ahead)
    };
    let found = UNITS.iter().filter_map(|&(sign, one, many)| fits(sign).map(|after| (sign.len(), after, one, many)));
    let (_, after, one, many) = found.max_by_key(|&(length, ..)| length)?;
    *cursor = after;
    Some((one, many))
}
