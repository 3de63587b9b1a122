"""Names of months and weekdays in the languages people prompt in; data only.

Chinese, Japanese and Korean dates are told by their signs (年月日, 星期), not by names.
"""

# fmt: off
MONTHS: tuple[str, ...] = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov",
    "dec",
    "januar", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember",
    "januari", "februari", "maart", "mei", "augustus",
    "janvier", "février", "mars", "avril", "juin", "juillet", "août", "septembre", "octobre", "novembre",
    "décembre",
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
    "noviembre", "diciembre",
    "janeiro", "fevereiro", "março", "maio", "junho", "julho", "setembro", "outubro", "novembro", "dezembro",
    "gennaio", "febbraio", "aprile", "maggio", "giugno", "luglio", "settembre", "ottobre", "dicembre",
    "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября",
    "декабря",
    "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września",
    "października", "listopada", "grudnia",
    "mär", "okt", "dez", "mrt", "janv", "févr", "avr", "juil", "déc", "ene", "abr", "dic", "fev", "mag",
    "giu", "lug", "ott", "янв", "фев", "мар", "апр", "июн", "июл", "авг", "сен", "сент", "окт", "ноя",
    "нояб", "дек",
)
DAYS: tuple[str, ...] = (
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    "mon", "tues", "tue", "wed", "thurs", "thur", "thu", "fri", "sat", "sun",
    "montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonnabend", "sonntag",
    "maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag",
    "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche",
    "lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo",
    "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira",
    "lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica",
    "понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье",
    "poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela",
)
SHORT_DAYS: tuple[str, ...] = (  # also words and names: weekdays only right before a day's number
    "mo", "di", "mi", "do", "fr", "sa", "so", "ma", "wo", "vr", "za", "zo",
    "lun", "mar", "mer", "jeu", "ven", "sam", "dim", "mié", "mie", "jue", "vie", "sáb", "sab", "dom", "gio",
    "seg", "ter", "qua", "qui", "sex",
    "пн", "вт", "ср", "чт", "пт", "сб", "вс",
)
# fmt: on


def any_of(words: tuple[str, ...]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "(?:" + "|".join(sorted(set(words), key=len, reverse=True)) + ")"
