"""Everyday sentences made from patterns: people, places, errands, numbers, times, prices, dates."""
import random

from numerals import ONES, ORDINALS, cardinal, clock, money, ordinal, year

NAMES = ("James Mary John Linda Robert Susan Michael Karen David Lisa William Nancy Richard Betty Thomas Sarah Charles Emma "
         "Daniel Laura Matthew Anna Anthony Julia Mark Alice Paul Grace Steven Helen Andrew Ruth Peter Rachel George Maria "
         "Kevin Diana Brian Sophie Edward Kate Ronald Jane Tim Olivia Jason Amy Frank Chloe Scott Ella Eric Lucy Adam Rose "
         "Henry Molly Simon Claire Oliver Zoe Jack Leah Sam Nina Ben Tara Max Ivy Leo Priya Arjun Mei Omar Fatima Carlos Elena "
         "Patricia Jennifer Elizabeth Barbara Jessica Margaret Dorothy Sandra Ashley Kimberly Donna Carol Michelle Amanda Melissa "
         "Deborah Stephanie Rebecca Sharon Cynthia Kathleen Angela Brenda Pamela Nicole Samantha Katherine Christine Catherine "
         "Virginia Victoria Joseph Christopher Donald Joshua Kenneth Timothy Jeffrey Ryan Jacob Gary Nicholas Jonathan Stephen Larry "
         "Justin Brandon Benjamin Samuel Gregory Alexander Patrick Dennis Jerry Tyler Aaron Nathan Douglas Zachary Kyle Walter Harold "
         "Isabella Sophia Charlotte Amelia Abigail Madison Hannah Natalie Gabriel Sebastian Vincent Leonard Theodore Nathaniel").split()
SURNAMES = ("Smith Johnson Brown Taylor Miller Wilson Moore Anderson Jackson White Harris Martin Thompson Robinson Clark Lewis Walker Hall "
            "Young King Wright Hill Green Baker Nelson Carter Mitchell Roberts Turner Phillips Campbell Parker Evans Edwards Collins Stewart "
            "Morris Rogers Reed Cook Morgan Bell Murphy Bailey Cooper Richardson Cox Howard Ward Peterson Gray Watson Brooks Kelly Sanders "
            "Price Bennett Wood Barnes Ross Henderson Coleman Jenkins Perry Powell Long Patterson Hughes Washington Butler Simmons Foster "
            "Gonzalez Bryant Russell Griffin Hayes Fitzgerald O'Brien McDonald Schneider Kowalski Patel Singh Nguyen Kim Rossi Novak").split()
PLACES = ("London Paris Berlin Madrid Rome Boston Chicago Denver Seattle Austin Dallas Houston Toronto Sydney Dublin Delhi Mumbai "
          "Tokyo Cairo Vienna Oslo Prague Lisbon Athens Moscow Miami Atlanta Phoenix Portland Detroit Glasgow Oxford Cambridge Manchester "
          "Birmingham Liverpool Edinburgh Bristol Brussels Amsterdam Hamburg Munich Zurich Geneva Milan Venice Florence Naples Barcelona Seville "
          "Copenhagen Helsinki Warsaw Budapest Bucharest Istanbul Jerusalem Bangkok Singapore Beijing Shanghai Seoul Manila Melbourne Auckland "
          "Vancouver Montreal Philadelphia Baltimore Cleveland Minneapolis Milwaukee Pittsburgh Cincinnati Sacramento Honolulu Nashville "
          "Canada Mexico Brazil Argentina Chile Egypt Kenya Nigeria India China Japan Australia Germany France Spain Italy Poland Sweden Norway "
          "Finland Iceland Ireland Scotland England Wales Portugal Greece Turkey Russia Ukraine California Texas Florida Virginia Ohio").split()
SPOTS = ("the station|the airport|the office|the library|the hospital|the school|the park|the market|the bank|the hotel|the museum|"
         "the post office|the restaurant|the theater|the beach|the bus stop|the kitchen|the garden|the church|the corner|the bridge|"
         "the supermarket|the train station|the city center|the front desk|the main entrance|the parking lot|the pharmacy|the harbor|"
         "the stadium|the bakery|the gas station|the playground|the swimming pool|the town hall|the university|the factory|the farm|"
         "the village|the river|the lake|the forest|the basement|the garage|the bathroom|the living room|the bedroom|the balcony|the roof|"
         "the gym|the zoo|the cinema|the police station|the courthouse|the warehouse|the shopping mall|the campsite|the elevator").split("|")
THINGS = ("book phone key bag car bicycle computer letter ticket chair table lamp cup plate window door picture camera watch shirt "
          "coat shoe hat box bottle clock radio battery cable printer screen keyboard file folder message program voice apple orange "
          "banana cake sandwich egg potato tomato flower tree dog cat bird horse fish guitar piano song movie game map plan report "
          "passport umbrella newspaper magazine jacket sweater blanket pillow mirror knife fork spoon glass bed sofa desk pencil pen "
          "towel candle bucket ladder hammer wallet purse necklace ring suitcase backpack helmet ball kite doll puzzle drum violin trumpet "
          "fridge oven stove kettle pot pan bowl jar basket carpet curtain shelf drawer stamp envelope package parcel truck bus boat "
          "engine wheel tire brake bench fence gate wall tower tunnel tent rope flag coin bill contract recipe poem story joke speech").split()
ADJECTIVES = ("red blue green white black yellow old new small big large little heavy light cheap expensive beautiful strange quiet loud warm "
              "cold hot dry wet clean dirty empty full broken favorite good bad long short young happy sad strong soft hard simple dark bright "
              "brown purple pink gray tiny huge thick thin narrow wide deep sharp smooth rough fresh sweet bitter sour modern ancient plain "
              "wonderful terrible perfect ordinary gentle rude clever careful lazy busy nervous proud angry tired hungry thirsty crowded noisy "
              "dangerous safe gorgeous ugly fancy comfortable wooden plastic golden silver leather cotton precious useless useful popular").split()
PEOPLE = ("my brother|my sister|my mother|my father|my friend|the teacher|the doctor|the driver|our neighbor|her husband|his wife|the old woman|"
          "the young man|the children|my boss|a customer|the manager|the nurse|the farmer|the engineer|the student|the police officer|"
          "everyone|somebody|the waiter|the artist|my uncle|my aunt|their grandmother|the captain|the baker|the king|the queen|our guest|"
          "the dentist|the lawyer|the journalist|the musician|a stranger|the tourist|her cousin|his nephew|my grandfather|the whole family|"
          "the mechanic|the plumber|the butcher|the librarian|the coach|the audience|the committee|nobody|the kids|a good friend of mine").split("|")
VERBS = ("saw found lost bought sold opened closed cleaned moved wanted needed liked loved carried dropped broke fixed painted washed "
         "borrowed returned ordered made brought took gave kept left put sent showed checked noticed used forgot remembered stole hid caught "
         "threw picked lifted pushed pulled watched studied described mentioned chose tried tested filled packed wrapped tore burned buried").split()
WHEN = ("yesterday|today|tomorrow|last week|next week|last night|this morning|this evening|on Monday|on Tuesday|on Wednesday|on Thursday|"
        "on Friday|on Saturday|on Sunday|in January|in February|in March|in April|in May|in June|in July|in August|in September|"
        "in October|in November|in December|last year|next month|two days ago|an hour ago|every day|right now|later|again|at night|"
        "after lunch|before dinner|at noon|at midnight|in the morning|in the afternoon|in winter|in summer|this weekend|soon|"
        "as soon as possible|once in a while|for the first time|all day long|twice a week|during the holidays|after the show|before sunrise|"
        "a long time ago|in the middle of the night|the other day|from time to time|at the last minute|by the end of the week").split("|")
ACTS = ("go home|call me back|open the file|save your work|turn off the lights|lock the door|wait outside|take a seat|read the instructions|"
        "check the settings|restart the computer|try again|send me a message|write it down|bring an umbrella|drive carefully|speak slowly|"
        "listen to this|look at the map|press the button|enter your password|choose a color|pay the bill|cook dinner|wash the dishes|"
        "feed the cat|walk the dog|buy some milk|take the bus|catch the train|cross the street|learn English|play the piano|sing a song|"
        "make a list|clean the room|change the battery|update the program|print the report|close the window|finish the work|"
        "answer the phone|ask a question|tell the truth|help your friends|drink more water|get some sleep|leave early|stay here|come with us|"
        "put on your coat|take off your shoes|set the table|water the plants|pick up the kids|book a room|cancel the order|sign the form|"
        "fill the tank|mow the lawn|sweep the floor|do the laundry|iron the shirts|take out the trash|fix the roof|paint the fence|"
        "turn up the heat|turn down the volume|slow down|hurry up|calm down|sit still|hold on|keep going|give up|move over|step back|"
        "have a rest|take a break|go for a walk|ride a bike|go swimming|catch a cold|throw a party|light a candle|bake a cake|peel the potatoes|"
        "taste the soup|warm up the food|blow out the candles|wrap the presents|visit your parents|thank the driver|follow the signs").split("|")
WEATHER = "sunny cloudy rainy windy foggy snowy cold warm hot humid stormy dry freezing mild pleasant awful".split()
FOOD = ("coffee|tea|water|milk|orange juice|bread|butter|cheese|soup|rice|chicken|fish|salad|pizza|pasta|ice cream|chocolate|fruit|eggs|"
        "sugar|salt|pepper|apples|potatoes|tomatoes|breakfast|lunch|dinner|a sandwich|a piece of cake|a glass of wine|beans|mushrooms|onions|"
        "garlic|honey|jam|yogurt|cereal|bacon|sausages|beef|pork|shrimp|noodles|pancakes|cookies|strawberries|grapes|peaches|lemonade|"
        "a bowl of soup|a cup of tea|a slice of bread|a bottle of water|a bag of chips").split("|")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
UNITS = ("pounds|kilograms|miles|kilometers|meters|feet|inches|liters|gallons|degrees|percent|minutes|seconds|hours|days|weeks|months|years|"
         "people|pages|points|steps|floors|rooms|seats|copies|students|votes|calories|megabytes|volts|grams|ounces|cups|acres|tons").split("|")
LETTERS = "B C D E F G H I J K L M N O P Q R S T U V W X Y Z".split()
SHORT = "yes no okay hello goodbye sorry good great stop wait welcome attention help right left ready sure thanks please now never really".split()


class Templates:
    """Draws random sentences; digits and words both occur for every kind of number."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return self.rng.choice(options)

    def count(self):
        """A count of everyday size."""
        r = self.rng
        return self.pick([r.randint(0, 20), r.randint(2, 99), r.randint(20, 99), r.randint(100, 999), r.randint(1000, 99999) // 10 ** r.randint(0, 2)])

    def hyphen(self):
        return self.pick([" ", " ", "-"])

    def number(self, n=None, digits=0.4):
        """A number as digits or in words."""
        n = self.count() if n is None else n
        if self.rng.random() < digits:
            return f"{n:,}" if n > 9999 or n > 999 and self.rng.random() < 0.3 else str(n)
        return cardinal(n, self.hyphen(), self.pick(["", "", "and "]))

    def a(self, phrase):
        return ("an " if phrase[0] in "aeiou" else "a ") + phrase

    def time(self):
        h, m = self.rng.randint(1, 12), self.pick([0, self.rng.randint(1, 59), self.rng.randint(1, 59), 5 * self.rng.randint(1, 11)])
        half = self.pick(["", "", "", " a.m.", " p.m.", " in the morning", " in the evening", " at night", " this afternoon", " sharp"])
        forms = [clock(h, m, self.hyphen()), clock(h, m, self.hyphen()), f"{h}:{m:02d}", f"{h}:{m:02d}"]
        if m == 0:
            forms += [f"{h} o'clock", f"{cardinal(h)} o'clock"]
        if m == 30:
            forms.append(f"half past {cardinal(h)}")
        if m == 15:
            forms += [f"quarter past {cardinal(h)}", f"quarter after {cardinal(h)}"]
        if m == 45:
            forms.append(f"quarter to {cardinal(h % 12 + 1)}")
        if 0 < m < 30:
            forms.append(f"{cardinal(m, self.hyphen())} past {cardinal(h)}")
        if m > 30:
            forms.append(f"{cardinal(60 - m, self.hyphen())} to {cardinal(h % 12 + 1)}")
        return self.pick(forms) + half

    def price(self):
        whole = self.pick([self.rng.randint(1, 30), self.rng.randint(2, 99), self.rng.randint(10, 999), self.rng.randint(1000, 9000)])
        cents = self.pick([0, 0, 50, 99, 95, 25, 75, self.rng.randint(1, 99)])
        if self.rng.random() < 0.3:
            return f"${whole}.{cents:02d}" if cents else f"${whole}"
        unit, part = self.pick([(("dollar", "dollars"), ("cent", "cents"))] * 4 + [(("euro", "euros"), ("cent", "cents")), (("pound", "pounds"), ("pence", "pence")), (("rupee", "rupees"), ("paise", "paise"))])
        if cents and self.rng.random() < 0.2:
            return cardinal(whole, self.hyphen()) + " " + cardinal(cents, self.hyphen())
        return money(whole, cents, self.hyphen(), unit, part)

    def year(self):
        n = self.pick([self.rng.randint(1900, 1999), self.rng.randint(2000, 2039), self.rng.randint(1100, 1899)])
        return str(n) if self.rng.random() < 0.4 else year(n, self.hyphen())

    def date(self):
        d, m = self.rng.randint(1, 31), self.pick(MONTHS)
        day = ordinal(d, self.hyphen())
        return self.pick([f"{m} {day}", f"{m} {day}", f"the {day} of {m}", f"{m} {d}", f"{m} {day}, {self.year()}", f"{self.pick(DAYS)}, {m} {day}"])

    def spelled_digits(self, low=3, high=8):
        word = self.rng.random() < 0.6
        return " ".join((ONES[d] if word else str(d)) for d in (self.rng.randint(0, 9) for _ in range(self.rng.randint(low, high))))

    def numeric(self):
        """A sentence about a number, a time, a price or a date."""
        c, n, r = self.pick, self.number, self.rng
        name, place, spot, thing, adj, who, verb, when = c(NAMES), c(PLACES), c(SPOTS), c(THINGS), c(ADJECTIVES), c(PEOPLE), c(VERBS), c(WHEN)
        unit = c(UNITS)
        return c([
            lambda: f"the train to {place} leaves at {self.time()}.", lambda: f"the bus to {place} arrives at {self.time()}.",
            lambda: f"it is {self.time()} now.", lambda: f"the meeting starts at {self.time()}.", lambda: f"let's meet at {self.time()} in front of {spot}.",
            lambda: f"{who} will be at {spot} at {self.time()}.", lambda: f"wake me up at {self.time()}, please.", lambda: f"{spot} opens at {self.time()} and closes at {self.time()}.",
            lambda: f"we left {place} around {self.time()} and got home at {self.time()}.", lambda: f"can you pick me up at {self.time()}?", lambda: f"{self.time()}.",
            lambda: f"there are {n()} {thing}s in {spot}.", lambda: f"we have {n()} {thing}s and {n(r.randint(2, 60))} {c(THINGS)}s.",
            lambda: f"{who} {verb} {n(r.randint(2, 99))} {thing}s {when}.", lambda: f"I counted {n()} {unit}.", lambda: f"it took {n(r.randint(2, 99))} {unit} to get there.",
            lambda: f"the {thing} weighs {n()} {c(['pounds', 'kilograms', 'grams', 'tons'])}.", lambda: f"the {adj} {thing} is {n()} {c(['meters', 'feet', 'inches', 'centimeters'])} {c(['long', 'high', 'wide', 'tall', 'deep'])}.",
            lambda: f"{place} is {n()} {c(['miles', 'kilometers'])} away from here.", lambda: f"about {n(r.randint(1, 100))} percent of {c(['the students', 'the people', 'our customers', 'all visitors', 'the water'])} {c(['agree', 'passed', 'came back', 'was lost', 'said no'])}.",
            lambda: f"the {thing} costs {self.price()}.", lambda: f"that will be {self.price()}, please.", lambda: f"I paid {self.price()} for this {thing}.",
            lambda: f"the {adj} {thing} was only {self.price()} in {spot}.", lambda: f"{name} owes me {self.price()}.", lambda: f"tickets cost {self.price()} for adults and {self.price()} for children.",
            lambda: f"the price went up from {self.price()} to {self.price()}.", lambda: f"{self.price()}.",
            lambda: f"{who} was born in {self.year()}.", lambda: f"it happened in {self.year()}.", lambda: f"the war began in {self.year()} and ended in {self.year()}.",
            lambda: f"the {c(['house', 'bridge', 'church', 'tower', 'school'])} was built in {self.year()}.", lambda: f"since {self.year()}, {who} has lived in {place}.", lambda: f"{self.year()}.",
            lambda: f"today is {c(DAYS)}, {self.date()}.", lambda: f"my birthday is on {self.date()}.", lambda: f"your appointment is on {self.date()} at {self.time()}.",
            lambda: f"the {ordinal(r.randint(1, 31), self.hyphen())} of {c(MONTHS)} is a {c(DAYS)}.", lambda: f"{name} came in {ordinal(r.randint(1, 40), self.hyphen())}.", lambda: f"{self.date()}.",
            lambda: f"the temperature is {c(['', '', 'minus '])}{n(r.randint(0, 110))} degrees.", lambda: f"{n(r.randint(0, 99))} plus {n(r.randint(0, 99))} is {n(r.randint(0, 199))}.",
            lambda: f"{n(r.randint(0, 99))} {c(['minus', 'times', 'divided by'])} {n(r.randint(1, 99))} {c(['is', 'equals', 'makes'])} {n(r.randint(0, 999))}.",
            lambda: f"number {n()}.", lambda: f"{n()}.", lambda: f"{n()}, {n()}, {n()}.", lambda: f"{n()} or {n()}?", lambda: f"{n()} {unit}.", lambda: f"page {n(r.randint(1, 600))} of {n(r.randint(2, 600))}.",
            lambda: f"turn {c(['left', 'right'])} at the {c(ORDINALS[1:13])} {c(['corner', 'light', 'street', 'house'])}.", lambda: f"walk {n(r.randint(2, 20))} blocks and turn {c(['left', 'right'])}.",
            lambda: f"you have {n(r.randint(2, 99))} new messages.", lambda: f"call {self.spelled_digits()}.", lambda: f"the code is {self.spelled_digits(3, 6)}.", lambda: f"my phone number is {self.spelled_digits(6, 10)}.",
            lambda: f"flight {n(r.randint(2, 999))} to {place} is now boarding at gate {n(r.randint(1, 60))}.", lambda: f"room {n(r.randint(1, 999))} is on the {c(ORDINALS[1:12])} floor.",
            lambda: f"error {n()}: the {thing} was not found.", lambda: f"the {c(['download', 'update', 'test', 'build', 'backup'])} is {n(r.randint(1, 100))} percent complete.",
            lambda: f"{name} is {n(r.randint(1, 99))} years old.", lambda: f"chapter {n(r.randint(1, 60))}.", lambda: f"{n(r.randint(0, 9))} point {self.spelled_digits(1, 3)} {unit}.",
            lambda: f"the score was {n(r.randint(0, 30))} to {n(r.randint(0, 30))}.", lambda: f"{c(['half', 'a third', 'a quarter', 'two thirds', 'three quarters', 'one and a half', 'one fifth'])} of the {thing}s were {adj}.",
            lambda: f"{n(r.randint(1, 300))} {c(NAMES + PLACES)} {c(['Street', 'Road', 'Avenue', 'Lane', 'Drive'])}, {place}.", lambda: f"the {c(['company', 'city', 'team', 'school'])} spent {n(r.randint(1, 99))} {c(['thousand', 'million', 'billion'])} {c(['dollars', 'euros', 'pounds'])} {when}.",
            lambda: f"the {' '.join(c(LETTERS) for _ in range(r.randint(2, 4)))} {c(['says', 'report', 'office', 'is here', 'called', 'team'])}.", lambda: f"visit {thing} dot {c(['com', 'org', 'net'])} {c(['slash ' + c(THINGS), 'for more', 'today'])}.",
            lambda: f"version {n(r.randint(0, 20))} point {n(r.randint(0, 30))} is out.", lambda: f"take {n(r.randint(1, 6))} {c(['cups', 'spoons', 'grams', 'pieces'])} of {c(FOOD)} and {n(r.randint(1, 6))} {c(['eggs', 'apples', 'onions', 'lemons'])}.",
        ])()

    def plain(self):
        """A sentence without numbers."""
        c = self.pick
        name, place, spot, thing, adj, who, verb, when, act, food = c(NAMES), c(PLACES), c(SPOTS), c(THINGS), c(ADJECTIVES), c(PEOPLE), c(VERBS), c(WHEN), c(ACTS), c(FOOD)
        title = c(["Mister", "Missus", "Doctor", "Professor", "Captain"])
        return c([
            lambda: f"{who} {verb} {self.a(adj)} {thing} {when}.", lambda: f"{name} {verb} the {adj} {thing} near {spot}.", lambda: f"please {act}.",
            lambda: f"{act}, please.", lambda: f"don't forget to {act}.", lambda: f"could you {act}, please?", lambda: f"can you {act} {when}?",
            lambda: f"do you want to {act}?", lambda: f"I would like to {act} {when}.", lambda: f"we should {act} before you {c(ACTS)}.",
            lambda: f"{name}, please {act} and then {c(ACTS)}.", lambda: f"where is {spot}?", lambda: f"how do I get to {spot}?",
            lambda: f"is there {self.a(adj)} {thing} in {spot}?", lambda: f"{who} is waiting at {spot}.", lambda: f"{name} lives in {place}.",
            lambda: f"{name} and {c(NAMES)} went to {spot} {when}.", lambda: f"my name is {name} {c(SURNAMES)}, and I come from {place}.",
            lambda: f"hello {name}, how are you today?", lambda: f"good {c(['morning', 'afternoon', 'evening', 'night'])}, {name}.",
            lambda: f"the weather in {place} will be {c(WEATHER)} {when}.", lambda: f"it was {c(WEATHER)} and {c(WEATHER)} {when}.",
            lambda: f"would you like some {food}?", lambda: f"I want {food} and {c(FOOD)} for {c(['breakfast', 'lunch', 'dinner'])}.",
            lambda: f"{who} doesn't like {food}.", lambda: f"your {thing} is {adj}.", lambda: f"the {adj} {thing} is {c(['on', 'under', 'behind', 'next to', 'in front of', 'inside'])} the {c(THINGS)}.",
            lambda: f"this {thing} is too {adj} for me.", lambda: f"I think the {thing} is {adj}, but {who} {verb} it.", lambda: f"why is the {thing} so {adj}?",
            lambda: f"who {verb} my {thing}?", lambda: f"when did {who} go to {spot}?", lambda: f"what is the name of the {adj} {thing}?",
            lambda: f"how many {thing}s do you have?", lambda: f"how much is the {adj} {thing}?", lambda: f"I have never seen such {self.a(adj)} {thing}.",
            lambda: f"if it rains {when}, we will {act}.", lambda: f"{who} told me to {act}.", lambda: f"{who} said that the {thing} was {adj}.",
            lambda: f"after that, {who} {verb} the {thing}.", lambda: f"because the {thing} was {adj}, {name} could not {act}.", lambda: f"thank you, {name}.",
            lambda: f"thanks for the {adj} {thing}.", lambda: f"I am sorry, the {thing} is not available {when}.",
            lambda: f"{c(['yes', 'no', 'okay', 'sure', 'maybe', 'well', 'of course', 'actually', 'honestly', 'anyway'])}, {who} will {act} {when}.",
            lambda: f"he {verb} it, she {c(VERBS)} it, and they {c(VERBS)} the {thing}.", lambda: f"{title} {c(SURNAMES)} {verb} {self.a(adj)} {thing} in {place}.",
            lambda: f"{name} {c(SURNAMES)} is {c(['a', 'the'])} {c(['singer', 'writer', 'painter', 'actor', 'surgeon', 'pilot', 'chemist', 'mayor', 'judge', 'sailor', 'carpenter', 'gardener'])} from {place}.",
            lambda: f"{c(['did', 'would', 'could', 'will'])} you {act} {when}?", lambda: f"I {c(['should have', 'could have', 'must', 'might', 'want to', 'used to', 'have to'])} {act} {when}.".replace("have take", "have taken"),
            lambda: f"{who} and {c(PEOPLE)} {verb} the {thing} {when}.", lambda: f"there's {self.a(adj)} {thing} {c(['in', 'at', 'near', 'behind'])} {spot}.", lambda: f"the {thing} {c(['fell off', 'rolled under', 'was stuck behind', 'disappeared from'])} the {c(THINGS)}.",
            lambda: f"{c(['it is', 'it was', 'that was', 'this is'])} the most {adj} {thing} in {place}.", lambda: f"I'm {c(['looking for', 'afraid of', 'tired of', 'proud of', 'thinking about', 'waiting for'])} the {adj} {thing}.",
            lambda: f"{who} {c(['is', 'was'])} {c(['too', 'very', 'so', 'really', 'quite', 'a little'])} {adj} {when}.", lambda: f"we {c(['walked', 'drove', 'ran', 'went', 'flew', 'cycled'])} from {spot} to {spot}.",
            lambda: f"{c(['let us', 'we can', 'you may', 'they will', 'she wants to', 'he tried to'])} {act} and {c(ACTS)}.", lambda: f"{thing}.", lambda: f"{adj} {thing}.", lambda: f"{name}.",
            lambda: f"{c(SHORT)}{c('.!?')}", lambda: f"{c(['what', 'which', 'whose'])} {thing} {c(['is this', 'did you buy', 'do you like', 'was on the table'])}?", lambda: f"{who} {c(['never', 'always', 'often', 'rarely', 'usually', 'sometimes'])} {verb} {food}.",
            lambda: f"give the {thing} to {who}.", lambda: f"{who} laughed and {verb} the {adj} {thing}.", lambda: f"you'll need {self.a(thing)}, {self.a(c(THINGS))} and {self.a(adj)} {c(THINGS)}.",
        ])()

    def sentence(self, numeric=0.5):
        """One random sentence, capitalised."""
        s = self.numeric() if self.rng.random() < numeric else self.plain()
        s = s.replace("..", ".")
        return s[0].upper() + s[1:]


if __name__ == "__main__":
    t = Templates(random.Random(0))
    for _ in range(20):
        print(t.sentence())
