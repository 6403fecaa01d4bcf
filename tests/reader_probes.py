"""Small pages of text with questions whose kind is easily mistaken: words of one kind stand in a question of another.

`BLIND` was written before any of its questions was asked of the reader, and is kept as it was written. Its misses were
then looked at while the reader was changed, so it guards what was mended and no longer measures unseen questions.
"""

BLIND = [
    ("""
Budget: 48,000 EUR
Budget approved by: Anna Weber
Monthly rent: 950 EUR
Rent paid by: Clara Diaz
Measured at: Graz
Temperature: 21 C
""", {
        'Who approved the budget?': 'Anna Weber',
        'Who pays the rent?': 'Clara Diaz',
        'Where was the temperature measured?': 'Graz',
        'What is the budget?': '48,000 EUR',
        'How high is the monthly rent?': '950 EUR',
        'What temperature was measured?': '21 C'}),
    ("""
Relocation plan

Moving date: 14 March 2026
New address: Lindengasse 8, Graz
Mover: Huber Transporte GmbH
Cost of the move: 6,400 EUR
Paid by: head office
Contact for the move: Petra Lang
Phone: +43 316 55 21 80
Insurance: included
Number of boxes: 240
""", {
        'Who pays for the move?': 'head office',
        'When does the move take place?': '14 March 2026',
        'How many boxes are there?': '240',
        'How much does the move cost?': '6,400 EUR',
        'Who is the contact for the move?': 'Petra Lang',
        'Is insurance included?': 'included',
        'What is the phone number?': '+43 316 55 21 80'}),
    ("""
Purchase order PO-7731

Order number: PO-7731
Order date: 2 June 2026
Ordered by: Tomas Berg
Supplier: Nordlicht AB
Delivery period: 3 weeks

Item         Quantity    Unit price     Total price
Desk lamp    12          39.00 EUR      468.00 EUR
Monitor      4           219.00 EUR     876.00 EUR
Chair        6           145.50 EUR     873.00 EUR
""", {
        'Who placed the order?': 'Tomas Berg',
        'On what date was the order placed?': '2 June 2026',
        'What is the number of the order?': 'PO-7731',
        'How long does the delivery take?': '3 weeks',
        'How many monitors were ordered?': '4',
        'What is the total price of the chair?': '873.00 EUR',
        'Which item has the highest unit price?': 'Monitor'}),
    ("""
Water quality report

The samples were taken by Ines Moreau on 9 April 2026 at Lake Ossiach.
The laboratory fee of 320 EUR is paid by the city of Villach.

pH value: 7.4
Water temperature: 11.2 °C
Depth: 4.5 m
Approved by: Dr. Karl Winter
""", {
        'Who took the samples?': 'Ines Moreau',
        'Where were the samples taken?': 'Lake Ossiach',
        'When were the samples taken?': '9 April 2026',
        'Who pays the laboratory fee?': 'the city of Villach',
        'How high is the laboratory fee?': '320 EUR',
        'What is the water temperature?': '11.2 °C',
        'Who approved the report?': 'Dr. Karl Winter'}),
    ("""
Employment contract

Employee: Lena Fischer
Monthly salary: 3,150 EUR
Salary set by: Board of Trustees
Notice period: 8 weeks
Period ends on: 31 August 2028
Place of work: Linz
Weekly hours: 38.5
Supervisor: Jonas Maier
Bank for the salary: Volksbank Tirol
IBAN: AT61 1904 3002 3457 3201
""", {
        'Who sets the salary?': 'Board of Trustees',
        'How high is the salary?': '3,150 EUR',
        'Where is the place of work?': 'Linz',
        'When does the period end?': '31 August 2028',
        'How long is the notice period?': '8 weeks',
        'Which bank is the salary paid to?': 'Volksbank Tirol',
        'Who supervises the employee?': 'Jonas Maier'}),
    ("""
Spring conference

Venue: Kongresshaus Wels
Opening time: 9:30
Opened by: Mayor Rosa Klein
Price of the ticket: 45 EUR
Tickets sold at: Café Central
Ticket code: SPR-26-A
Deadline for the discount: 28 February 2026
Discount: 15 %
Number of speakers: 18
Total length: 2 days
""", {
        'Who opens the conference?': 'Mayor Rosa Klein',
        'Where are the tickets sold?': 'Café Central',
        'What time is the opening?': '9:30',
        'How much is the discount?': '15 %',
        'How much is a ticket?': '45 EUR',
        'How many speakers are there?': '18',
        'What code is on the ticket?': 'SPR-26-A',
        'Until when is there a discount?': '28 February 2026'}),
    ("""
Candidates for a purchase

Company      Price               Headquarters    Number of staff    Head
Alder Ltd    2.5 million EUR     Bristol         240                Tom Alder
Birch AG     900,000 EUR         Zug             85                 Nora Frei
Cobalt SA    1,200,000 EUR       Lyon            130                Luc Petit
""", {
        'Which company has the highest price?': 'Alder Ltd',
        'Which company has the lowest price?': 'Birch AG',
        'Where is the headquarters of Birch AG?': 'Zug',
        'Who is the head of Cobalt SA?': 'Luc Petit',
        'How many staff does Alder Ltd have?': '240',
        'What does Birch AG cost?': '900,000 EUR'}),
    ("""
Vehicle sheet

Licence number: W-4471-K
Weight: 1,460 kg
Weighed by: Otto Prantl
Fuel cost per year: 1,980 EUR
Fuel card issued by: Mobilita Bank
Last inspection: 12 January 2026
Inspected by: Ruth Egger
Inspected at: Leoben
Warranty: 24 months
Warranty granted by: Steyr Motors
""", {
        'Who weighed the vehicle?': 'Otto Prantl',
        'How heavy is the vehicle?': '1,460 kg',
        'Where was the vehicle inspected?': 'Leoben',
        'When was the last inspection?': '12 January 2026',
        'Who grants the warranty?': 'Steyr Motors',
        'How long is the warranty?': '24 months',
        'Who issued the fuel card?': 'Mobilita Bank',
        'What is the fuel cost per year?': '1,980 EUR',
        'What is the licence number?': 'W-4471-K'}),
]


def ask(probes, embeddings=None) -> list:
    "(question, answer, what the reader gave) of all probes"
    from cosee.text.layout import typed_page
    from cosee.text.reader import Reader
    rows = []
    for page, questions in probes:
        reader = Reader([typed_page(page)], embeddings)
        found = {q: reader.answer(q) for q in questions}
        rows += [(q, a, found[q]['answer'] if found[q] else None) for q, a in questions.items()]
    return rows
