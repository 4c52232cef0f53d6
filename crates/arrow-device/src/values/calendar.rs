//! Writes dates and times, which are counted by integers, as in ISO 8601.
//!
//! Time zones are not looked up: a timestamp with a zone is written in UTC, followed by the name of
//! the zone.

use std::fmt;

use crate::TimeUnit;

const SECONDS_OF_A_DAY: i128 = 86_400;

/// Writes the date that is `days` after 1970-01-01.
pub(super) fn write_date(f: &mut fmt::Formatter<'_>, days: i128) -> fmt::Result {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => write!(f, "{year:04}-{month:02}-{day:02}"),
        // ISO 8601 requires a sign for years with more or fewer than four digits.
        _ => write!(f, "{year:+05}-{month:02}-{day:02}"),
    }
}

/// Writes a point in time.
pub(super) fn write_date_time(
    f: &mut fmt::Formatter<'_>,
    count: i64,
    unit: TimeUnit,
) -> fmt::Result {
    let of_a_day = SECONDS_OF_A_DAY * i128::from(per_second(unit));
    let count = i128::from(count);
    write_date(f, count.div_euclid(of_a_day))?;
    f.write_str("T")?;
    // Less than the nanoseconds of a day, so it fits.
    write_clock(f, count.rem_euclid(of_a_day) as i64, unit)
}

/// Writes the time of a day. A count that is no time of a day is written as a number.
pub(super) fn write_time(f: &mut fmt::Formatter<'_>, count: i64, unit: TimeUnit) -> fmt::Result {
    let of_a_day = SECONDS_OF_A_DAY * i128::from(per_second(unit));
    if (0..of_a_day).contains(&i128::from(count)) {
        write_clock(f, count, unit)
    } else {
        write!(f, "{count}{unit}")
    }
}

fn write_clock(f: &mut fmt::Formatter<'_>, count: i64, unit: TimeUnit) -> fmt::Result {
    let (seconds, part) = (count / per_second(unit), count % per_second(unit));
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    match unit {
        TimeUnit::Second => Ok(()),
        TimeUnit::Millisecond => write!(f, ".{part:03}"),
        TimeUnit::Microsecond => write!(f, ".{part:06}"),
        TimeUnit::Nanosecond => write!(f, ".{part:09}"),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Year, month and day of the Gregorian calendar, extended to all times.
///
/// Counts in eras of 400 years, which all have the same number of days, and in years that begin in
/// March: a leap day is then the last day of its year.
fn civil_from_days(days: i128) -> (i128, i128, i128) {
    const DAYS_OF_AN_ERA: i128 = 146_097;
    // The number of days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_OF_AN_ERA);
    let day_of_era = days.rem_euclid(DAYS_OF_AN_ERA);
    // Without the leap days before this day, each year has 365 days.
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, each five months have 153 days.
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let is_next_year = months_from_march >= 10;
    let month = if is_next_year { months_from_march - 9 } else { months_from_march + 3 };
    (era * 400 + year_of_era + i128::from(is_next_year), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_through_the_calendar() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (-25_509, (1900, 2, 28)),
            (-25_508, (1900, 3, 1)),
            (19_782, (2024, 2, 29)),
            (-719_468, (0, 3, 1)),
            (-719_528, (0, 1, 1)),
            (-719_529, (-1, 12, 31)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(civil_from_days(days), date, "{days}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut year, mut month, mut day) = (1968_i128, 1_i128, 1_i128);
        let years = if cfg!(miri) { 10 } else { 900 };
        for days in -731..-731 + years * 366 {
            assert_eq!(civil_from_days(days), (year, month, day), "{days}");
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = lengths[month as usize - 1] + i128::from(is_leap && month == 2);
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
