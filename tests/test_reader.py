"""What people ask of receipts, letters and reports, from the outside: pages in, an answer or none out."""
import pytest
from PIL import Image, ImageDraw, ImageFont
from cosee.agents import team
from cosee.controller import CoSeeController
from cosee.models.client import page_request
from cosee.models.reader_client import OcrClient
from cosee.text.ocr import TextExtractor
from cosee.text.reader import Reader
from cosee.text.layout import typed_page
from cosee.text.page_text import make_line
from typed_pages import InOrder


def said(question, *texts):
    "What the client says to a question about typed pages"
    client = OcrClient(words=InOrder([typed_page(t) for t in texts]))
    images = [Image.new('RGB', (20, 20))] * len(texts)
    return client.respond(page_request(images, f'Question: {question}')).text.rpartition('Answer: ')[2]


RECEIPT = '''
   HILLTOP HARDWARE
  TRADING SDN BHD
    (812345-X)
  NO. 7, JALAN MERANTI 2,
  47100 PUCHONG
  TEL: 03-5551234
  TAX INVOICE
  12/03/2018 10:25
  Nails 2 kg          7.02
  Sub total           7.02
  Total            RM 7.02
  Rounding           -0.02
  Rounded total       7.00
  Cash               10.00
  Change              3.00
  GST Summary   Amount    Tax
  Total           6.62   0.40
'''
CONTENTS = '''
  Contents
  1 Letter to shareholders ......... 4
  2 Revenue ........................ 17
  3 Outlook ........................ 29
  4 Index .......................... 88
'''
REPORT = 'Results of the year\n\nRevenue: 412 million euros\nEmployees: 1,204'
RECHNUNG = '''
  Tischlerei Amsel GmbH
  Gartenstraße 12
  04109 Leipzig

  Rechnungsnummer: R-2023-118
  Rechnungsdatum: 04.05.2023
  Fällig am: 18.05.2023

  Nettobetrag: 400,00 €
  Mehrwertsteuer: 76,00 €
  Gesamtbetrag: 476,00 €
'''
LETTRE = '''
  Cabinet Moreau SARL
  8 rue des Lilas

  Numéro de facture : F-204
  Date d'échéance : 30/06/2023
  Montant total : 1 250,00 €
'''
LEASE = '''
 LEASE AGREEMENT
 Tenant:  Ada Berg
 Landlord:  Bo Lind
 Monthly rent:  EUR 900.00
 Pets allowed:  No
 Deposit:  EUR 2,700.00
'''
LETTER = '''
Ann Bell - 1 High Street - 10115 Berlin
REGISTERED
Frau
Jana Doe
Low Road 2
20095 Hamburg

                                      Berlin, den 3. Mai 2026

Kündigung des Vertrags Nr. 4711

Sehr geehrte Frau Doe,
hiermit kündige ich den Vertrag zum Ende des Monats.
Bitte bestätigen Sie mir den Eingang.

Mit freundlichen Grüßen

Ann Bell
'''
QUOTE = '''
Invoicing             Delivery             Date : 12 avril 2017
Same street           Same street          Devis n° 24

À payer avant : 12 mai 2017

Produit     Quantité   Prix HT   TVA       Prix TTC
Vis         2          25,00 €   5,50 %    52,75 €
Clous       1          10,00 €   19,60 %   9,57 €
'''
SHEET = '''
Day    Begin    End      Hours    Remark
1                                 Rest
2      6:20     12:15    5:55
3      6:20     13:15    5:55     Doctor
4                                 Rest
'''
ARTICLE = '''
           Weaving by machine: a report

                Edith Loom∗
             Bernard K. Shuttle†
                 May 4, 2020

                   Abstract
This report tells of looms that weave without hands, and what they need for it.
It requires the packages warp and weft. Each loom was built by the same firm.

∗This file has version number 2.31, last revised in May.
'''
HANDBUCH = '''
        Weben mit der Maschine: ein Handbuch

             Edith Weber, Bernd Spindler
                  Version 2.31
                  4. Mai 2020

                 Zusammenfassung
Dieses Handbuch erzählt von Webstühlen, die ohne Hände weben, und was sie dafür brauchen.
'''
MANUEL = '''
         Tisser avec la machine : un manuel

                par Édith Tisserand
                 Version 2.31
                 4 mai 2020

                    Résumé
Ce manuel parle de métiers qui tissent sans mains et de ce dont ils ont besoin pour cela.
'''
CARD = '''
  Ann Bell
  Harbour Road 7
  Phone: 030 123 456
  ann.bell@example.org
  www.example.org/bell
  Account number   4711 0815
'''
BILLED = '''
  Invoice 12                Invoice date: April 1, 2021
                            Deadline: May 23, 2021

  Description      Item price     Sum
  4 chairs         100 USD        400 USD
  1 table          250 USD        250 USD
  2 lamps          40 USD         80 USD
                   Total          730 USD
'''
CV = '''
  Pierre Tisserand
  37 ans, célibataire
  12, rue des Fils
  33000 BORDEAUX
  tisserand@example.org

  LANGUES
  ANGLAIS    courant
'''
LEBENSLAUF = '''
  Paul Weber
  41 Jahre
  Wohnort: Kassel
'''
LEAFLET = '''
                 Weaving by hand
              Author: Edith Loom (edith@example.org)
              May 2011 / Version 1.4 / Licence free

1.2 Terms
There are three looms in the hall, and the museum shows more than 180 in all.
Opening times:   9:00-17:30 Mon-Fri
'''
BLATT = '''
                 Weben von Hand
              Paketautor: Edith Weber (edith@example.org)
              Mai 2011 / Version 1.4 / Lizenz frei

1.2 Regeln
Es gibt drei Webstühle im Saal.
'''
FEUILLE = '''
                 Tisser à la main
              Auteur : Edith Tisserand
              mai 2011 / Version 1.4 / Licence libre

1.2 Règles
La salle compte trois métiers.
'''
STROM = '''
  Stadtwerke Musterau GmbH
  Am Kanal 4, 12345 Musterau
  Frau Ines Albrecht
  Lindenweg 9
  12345 Musterau
  Rechnung Nr. 88-1207                    Musterau, 03.04.2021
  Kundennummer: 55120
  Abrechnungszeitraum: 01.03.2021 - 31.03.2021
  Position               Menge      Einzelpreis      Betrag
  Strom                    310         0,30 €       93,00 €
  Abschlag                   1         5,00 €        5,00 €
  Endbetrag                                         98,00 €
  Zahlungsziel: 17.04.2021
  Bankverbindung: DE02 1203 0000 0000 2020 51
  Kundenservice: 0800 123 4567
'''
AVIS = '''
  Régie des eaux de Valmont
  12 rue du Puits, 38000 Valmont
  Facture n° 2020-551                     le 2 mars 2020
  Madame Lise Garnier
  Période facturée : 01/01/2020 - 31/01/2020
  Conseiller clientèle : Marc Tellier
  Désignation          Quantité    Prix unitaire    Montant
  Eau potable              30          2,10 €       63,00 €
  Net à payer                                       63,00 €
  Date d'échéance : 20/03/2020
  IBAN : FR76 30004 00827 00012345678 90
  Service client : 04 76 55 12 12
  Début de l'assemblée des usagers : 18h30, salle Fontaine
'''
HOTEL = '''
  SEAVIEW GUEST HOUSE
  Bill 4410                                         2 June 2019
  Guest: Priya Nair
  Check-in: 30 May 2019
  Check-out: 2 June 2019
  Description             Nights       Rate          Amount
  Room charges                 3     $80.00         $240.00
  Breakfast                    3      $8.00          $24.00
  Amount due                                        $264.00
  Please pay by 16 June 2019
  The summer meeting of guests begins at 7:30 pm in the Garden Room.
'''
NONE = 'not answerable'
ASKED = [   # pages, and what is answered to questions about them
    (RECEIPT, {'What is the total amount of the receipt?': '7.00', 'What is the date of the receipt?': '12/03/2018',
               'What is the name of the company that issued the receipt?': 'HILLTOP HARDWARE TRADING SDN BHD',
               'What is the address of the company that issued the receipt?': 'NO. 7, JALAN MERANTI 2, 47100 PUCHONG',
               'Who is the patient?': NONE, 'What is the email address of the customer?': NONE}),
    (LEASE, {"Who is the tenant?\nA. Bo Lind\nB. Ada Berg\nC. Cy Noor\nAnswer with the option's letter.": 'B',
             'Who is the tenant? (A) Bo Lind (B) Ada Berg': 'B',
             'What is the monthly rent? a) EUR 800 b) EUR 900': 'b',
             'Who is the landlord? Options: Ada Berg, Bo Lind': 'Bo Lind',
             "Who is the landlord? Choices: ['Ada Berg', 'Bo Lind']": 'Bo Lind',
             'Who is the tenant?\nA. Xi Wu\nB. Yo Li': NONE, 'Is the monthly rent EUR 900.00?': 'Yes',
             'Is the monthly rent EUR 950?': 'No', 'Are pets allowed?': 'No', 'Is the tenant Ada Berg?': 'Yes',
             'Is Ada Berg the landlord?': NONE, 'Is the deposit higher than the rent?': NONE,
             'Can you tell me the deposit?': 'EUR 2,700.00', 'Was the tenant Ada Berg?': 'Yes',
             'Who is the tenant?': 'Ada Berg'}),
    ('Firm: Paulo Cereda\n\nDucks sent by: Brazil\n\nEntreprise: CP Ville\n',
     {'What is the VAT number of the firm?': NONE, 'How many ducks were sent?': NONE,
      "Quel est le numéro de compte (IBAN) de l'entreprise ?": NONE}),
    (CARD, {'What is the email address?': 'ann.bell@example.org',
            'Wie lautet die E-Mail-Adresse?': 'ann.bell@example.org',
            "Quelle est l'adresse e-mail ?": 'ann.bell@example.org', 'What is the website?': 'www.example.org/bell',
            'What is the account number?': '4711 0815', 'What is the phone number?': '030 123 456',
            'What is the IBAN?': NONE, 'Wie lautet die IBAN?': NONE, "Quel est l'IBAN ?": NONE,
            'What is the mobile number?': NONE, 'What is the fax number?': NONE, 'Wie lautet die Handynummer?': NONE,
            'Quel est le numéro de portable ?': NONE, 'What is the VAT number?': NONE,
            'Wie lautet die Faxnummer?': NONE, 'When was Ann Bell born?': NONE, 'Wann ist Ann Bell geboren?': NONE}),
    (BILLED, {'When does the invoice have to be paid?': 'May 23, 2021', 'Until when must it be paid?': 'May 23, 2021',
              'What is the price of one table?': '250 USD', 'Was kostet ein Tisch?': NONE}),
    ('  --all         do not ignore entries starting with .\n  --reverse     reverse order while sorting\n',
     {'What does --all do?': 'do not ignore entries starting with .', 'What does --almost-all do?': NONE,
      'What does -m do?': NONE}),
    (RECHNUNG, {'Wie hoch ist der Gesamtbetrag?': '476,00 €', 'Wie lautet die Rechnungsnummer?': 'R-2023-118',
                'What is the invoice number?': 'R-2023-118', 'What is the total amount?': '476,00 €',
                'Wann ist die Rechnung fällig?': '18.05.2023'}),
    (LETTRE, {'Quel est le montant total ?': '1 250,00 €', 'Quel est le numéro de facture ?': 'F-204',
              "Quelle est la date d'échéance ?": '30/06/2023'}),
    (LETTER, {'De quand date cette lettre ?': '3. Mai 2026'}),
    (QUOTE, {'Quel est le numéro du devis ?': '24', "Jusqu'à quand faut-il payer ?": '12 mai 2017',
             'Quel est le prix TTC des clous ?': '9,57 €'}),
    (SHEET, {'Which remark does day 3 have?': 'Doctor'}),
    ('Jana Doe\n\nMitglied Nr. 4711\n\nseit dem 11.09.2001\n',
     {'Welche Mitgliedsnummer hat Jana Doe?': '4711'}),
    ('Sprechstunden: Sonntag, 02:00 – 03:00 Uhr\n',
     {'Wann sind die Sprechstunden?': 'Sonntag, 02:00 – 03:00 Uhr'}),
    ('Bericht geschrieben von: Ada Berg†\n', {'Wer hat den Bericht geschrieben?': 'Ada Berg'}),
    (ARTICLE, {'Who are the authors of the report?': 'Edith Loom, Bernard K. Shuttle',
               'When was the report written?': 'May 4, 2020', 'Which version is this file?': '2.31'}),
    (HANDBUCH, {'Wer sind die Autoren?': 'Edith Weber, Bernd Spindler', 'Welche Version wird beschrieben?': '2.31',
                'Von welchem Datum ist das Handbuch?': '4. Mai 2020'}),
    (MANUEL, {"Qui est l'auteur ?": 'Édith Tisserand', 'Quelle est la version ?': '2.31',
              'Quelle est la date du document ?': '4 mai 2020'}),
    (LEBENSLAUF, {'How old is he?': '41 Jahre', 'Wie alt ist er?': '41 Jahre', 'Quel âge a-t-il ?': '41 Jahre',
                  'Wo wohnt er?': 'Kassel', 'Where does he live?': 'Kassel', 'Où habite-t-il ?': 'Kassel',
                  'When did he die?': NONE, 'Wann ist er gestorben?': NONE}),
    (CV, {"Quelle est l'adresse électronique ?": 'tisserand@example.org', 'Quand est-il mort ?': NONE}),
    (LEAFLET, {'Who is the author?': 'Edith Loom', 'Under which licence is it?': 'free',
               'How many looms are there?': 'three', 'When are they open?': '9:00-17:30 Mon-Fri'}),
    (BLATT, {'Wer ist der Autor des Pakets?': 'Edith Weber', 'Unter welcher Lizenz steht es?': 'frei',
             'Wie viele Webstühle gibt es?': 'drei'}),
    (FEUILLE, {"Qui est l'auteur ?": 'Edith Tisserand', 'Sous quelle licence est-il ?': 'libre',
               'Combien de métiers y a-t-il ?': 'trois'}),
    (STROM, {'Wie viel muss ich insgesamt zahlen?': '98,00 €', 'Bis wann muss ich zahlen?': '17.04.2021',
             'Welche Nummer kann ich anrufen?': '0800 123 4567',
             'Auf welches Konto soll ich überweisen?': 'DE02 1203 0000 0000 2020 51',
             'Welcher Zeitraum wird abgerechnet?': '01.03.2021 - 31.03.2021',
             'Wie lautet meine Kundennummer?': '55120'}),
    (AVIS, {'Combien dois-je payer ?': '63,00 €', "Jusqu'à quelle date puis-je payer ?": '20/03/2020',
            'Quel numéro dois-je appeler ?': '04 76 55 12 12',
            'Quelle période est facturée ?': '01/01/2020 - 31/01/2020',
            'Sur quel compte dois-je faire le virement ?': 'FR76 30004 00827 00012345678 90',
            "À quelle heure commence l'assemblée ?": '18h30', 'Qui est mon interlocuteur ?': 'Marc Tellier'}),
    (HOTEL, {'How much do I owe?': '$264.00', 'When did the guest arrive?': '30 May 2019',
             'By when must I pay?': '16 June 2019', 'What time does the meeting start?': '7:30 pm'}),
    ('Drinks\n\nCoffee ............... 3.20\nTea .................. 2.50\nWater ................ 1.00',
     {'What is the price of tea?': '2.50'}),
    ('Northern Gardens Ltd\n4 Mill Lane\nLS1 4AP Leeds\n\nInvoice\n\nDate 7 June 2024\nTotal 12.00\nTax 2.00\n',
     {'What is the name of the company that issued the invoice?': 'Northern Gardens Ltd',
      'Who is the addressee of the invoice?': NONE, 'To whom is the invoice addressed?': NONE,
      'An wen ist die Rechnung gerichtet?': NONE}),
    (CONTENTS, {'What is the revenue?': NONE})]


@pytest.mark.parametrize('question, answer, page',
                         [(q, a, page) for page, questions in ASKED for q, a in questions.items()])
def test_what_a_page_says_is_answered_and_nothing_else(question, answer, page): assert said(question, page) == answer


def test_a_drawn_receipt():
    "The same through OCR, with the box of the sum that was paid"
    image = Image.new('RGB', (520, 760), 'white')
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    for i, line in enumerate(RECEIPT.strip('\n').split('\n')):
        draw.text((30, 20 + 40 * i), line[:17].strip(), 'black', font)
        draw.text((340, 20 + 40 * i), line[17:].strip(), 'black', font)
    found = Reader(TextExtractor(cache=False).read([image])).answer('What is the total amount of the receipt?')
    x0, y0, x1, y1 = found['bbox']
    assert found['answer'] == '7.00' and 0.6 < x0 < x1 < 0.8
    assert y0 * 760 - 12 < 20 + 40 * 12 + 12 < y1 * 760 + 12


def test_a_line_of_contents_is_no_answer():
    assert said('What is the revenue?', CONTENTS, REPORT) == '412 million euros'


def test_a_line_of_contents_says_where():
    assert said('On which page does Revenue begin?', CONTENTS, REPORT) == '17'


def test_running_heads_and_page_numbers_are_no_answers():
    pages = [f'Annual report: 2019\n\n\n\n\nPart {n}: text\n\n\n\n\n\n\n\n\n\n\n{n}' for n in (1, 2, 3, 4)]
    facts = Reader([typed_page(p) for p in pages]).facts
    assert {f['page'] for f in facts if f['value'] == '2019'} == {1}


@pytest.mark.parametrize('question, reason', [
    ('Who is the tenant?\nA. Xi Wu\nB. Yo Li', 'none of the options'),
    ('Is the deposit higher than the rent?', 'takes a comparison'), ('Is Ada Berg the landlord?', 'takes judgement')])
def test_an_abstention_says_why_on_the_board(question, reason):
    client = OcrClient(words=InOrder([typed_page(LEASE)]))
    episode = CoSeeController(team(client)).run([Image.new('RGB', (20, 20))], question)
    assert episode['answer'] == 'not answerable' and reason in episode['board'].to_text()


def test_a_choice_is_not_corrected_as_an_answer_that_stands_nowhere():
    client = OcrClient(words=InOrder([typed_page(LEASE)]))
    question = 'Who is the tenant?\nA. Bo Lind\nB. Ada Berg'
    episode = CoSeeController(team(client)).run([Image.new('RGB', (20, 20))], question)
    assert episode['answer'] == 'B' and episode['evidence'][0]['content'] == 'Tenant: Ada Berg'
    assert not any('correction' in c['tags'] for c in episode['board'].list_cells())


@pytest.mark.parametrize('question', ['Who wrote it?', 'Wie?', "De l'", 'à', 'Jusqu’à quand', 'Wem', 'n° º n°'])
def test_scraps_of_questions_are_read(question): Reader([typed_page(LETTER)]).answer(question)


@pytest.mark.slow
@pytest.mark.parametrize('size', [(80, 60), (300, 200), (1, 1), (20, 3000), (3000, 4)])
def test_a_page_without_print_has_no_answer(size):
    client = OcrClient(cache=None)
    said = client.respond(page_request([Image.new('RGB', size, 'white')], 'What is the total?')).text
    assert said.endswith('Answer: not answerable')


def test_questions_about_the_whole_document_look_at_its_first_page():
    "However often other pages say the words"
    from cosee.retrieval.lexical import find_page_references as find
    whole = ('Who wrote it?', 'Wer ist die Autorin?', "Qui est l'auteur ?", 'Which version is this?',
             'Welche Fassung ist das?')
    assert all(find(q, 9).positions == [1] for q in whole)
    assert not any(find(q, 9).positions for q in ('Who is the director?', 'Wer zahlt?', 'Qui paie ?'))


def test_a_note_has_one_colon_behind_a_label():
    "Also where labels that end in one stand above their values, as the heads of a table do"
    reader = Reader([typed_page('Due date:       Purchase order:      Date of invoice:\n'
                                '2025-10-17      PO-82485             2025-05-23\n')])
    assert reader.answer('When is it due?')['content'] == 'Due date: 2025-10-17'


@pytest.mark.timeout(60)
@pytest.mark.parametrize('piece', ['1 ', 'is ', 'of the ', 'A. ', 'a', 'a²', '²', 'é'])
def test_much_of_anything_on_a_page_is_read_in_bounds(piece):
    "What grows with the square of a line's length takes minutes here"
    long = make_line(piece * 50_000, [[0, 0], [900, 0], [900, 20], [0, 20]], 1.0, (1000, 1000))
    assert long['text']
    Reader([typed_page('\n'.join([(piece * 1500)[:1500]] * 6))]).answer('What is the total?')
