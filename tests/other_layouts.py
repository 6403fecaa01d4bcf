"""Documents in layouts of their own, with questions: a second unseen set for the reader.

They are drawn by other code, in other fonts and with other words than the generator's; two are skewed and noisy
like scans. Nothing is tuned on them.
"""
import random
from functools import lru_cache
from pathlib import Path
from PIL import Image, ImageDraw, ImageFilter, ImageFont


@lru_cache(64)
def font(name, size):
    import matplotlib
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / 'fonts' / 'ttf' / f'{name}.ttf'), size)


class Paper:
    "A page to draw on"
    def __init__(self, w=1100, h=1500, face='DejaVuSans', paper='white', ink='#111'):
        self.im, self.face, self.ink, self.w = Image.new('RGB', (w, h), paper), face, ink, w
        self.draw = ImageDraw.Draw(self.im)

    def text(self, x, y, s, size=20, bold=False, fill=None, anchor='la'):
        self.draw.text((x, y), s, font=font(self.face + ('-Bold' if bold else ''), size), fill=fill or self.ink,
                       anchor=anchor)

    def flow(self, x, y, s, width, size=19, lead=1.5):
        f, line = font(self.face, size), ''
        for word in s.split():
            if f.getlength(f'{line} {word}') > width:
                self.text(x, y, line, size)
                y += int(size * lead)
                line = word
            else: line = f'{line} {word}'.strip()
        self.text(x, y, line, size)
        return y + int(size * lead)

    def grid(self, x, y, widths, rows, size=18, height=38, head=None, rules='h', right=()):
        for i, row in enumerate(rows):
            if i == 0 and head: self.draw.rectangle((x, y, x + sum(widths), y + height), fill=head)
            at = x
            for j, (w, cell) in enumerate(zip(widths, row, strict=True)):
                color = 'white' if i == 0 and head else None
                if j in right: self.text(at + w - 10, y + 9, cell, size, i == 0, color, 'ra')
                else: self.text(at + 10, y + 9, cell, size, i == 0, color)
                at += w
            if rules: self.draw.line((x, y + height, x + sum(widths), y + height), fill='#999')
            y += height
        return y

    def scanned(self, angle=1.0, seed=1):
        rng, im = random.Random(seed), self.im.rotate(angle, Image.BICUBIC,
                                                      fillcolor='white').filter(ImageFilter.GaussianBlur(0.6))
        px = im.load()
        for _ in range(im.width * im.height // 60):
            x, y = rng.randrange(im.width), rng.randrange(im.height)
            px[x, y] = tuple(max(0, v - rng.randrange(90)) for v in px[x, y])
        self.im = im
        return self


def ask(*rows):
    return [dict(question=q, answers=[a] if isinstance(a, str) else list(a), pages=[p],
                 wording={'l': 'literal', 'p': 'paraphrase', 'u': 'unanswerable'}[w])
            for w, p, q, a in rows]


def repair_bill():
    p = Paper(face='DejaVuSerif')
    p.draw.rectangle((0, 0, 1100, 110), fill='#1d4d4f')
    p.text(50, 30, 'Kowalczyk Cycle Repairs', 40, True, 'white')
    p.text(1050, 140, 'Receipt 0093/26', 24, True, anchor='ra')
    p.text(1050, 180, 'Krakow, 9 June 2026', 20, anchor='ra')
    p.text(50, 150, 'Customer', 16, fill='#666')
    p.text(50, 175, 'Ms Anneliese Brunner', 22)
    p.text(50, 205, 'Ul. Dluga 7, 31-147 Krakow')
    y = p.grid(50, 290, [90, 500, 130, 140, 140],
               [['Pos.', 'Work done', 'Hours', 'Rate', 'Sum'], ['1', 'Brake overhaul front', '0.75', '60.00', '45.00'],
                ['2', 'New chain 11-speed', '0.50', '60.00', '30.00'],
                ['3', 'Wheel truing rear', '1.25', '60.00', '75.00'],
                ['4', 'Dynamo lamp fitted', '0.25', '60.00', '15.00']], head='#1d4d4f', right=(2, 3, 4))
    for i, (k, v) in enumerate([('Labour', '165.00'), ('Spare parts', '88.40'), ('VAT 23%', '58.28'),
                                ('To pay', 'PLN 311.68')]):
        p.text(700, y + 30 + 36 * i, k, 20, i == 3)
        p.text(1040, y + 30 + 36 * i, v, 20, i == 3, anchor='ra')
    p.text(50, y + 230, 'Mechanic: Piotr Zielinski     Frame number: WTU 331 K 8802 F')
    p.text(50, y + 265, 'Next service recommended in March 2027. Guarantee on work: 6 months.')
    return dict(kind='invoice', pages=[p.im], questions=ask(
        ('l', 1, 'What is to pay?', 'PLN 311.68'), ('l', 1, 'Who is the mechanic?', 'Piotr Zielinski'),
        ('l', 1, 'What is the frame number?', 'WTU 331 K 8802 F'),
        ('l', 1, 'How many hours did the wheel truing rear take?', '1.25'),
        ('l', 1, 'What is the sum for the brake overhaul front?', '45.00'),
        ('l', 1, 'How much are the spare parts?', '88.40'),
        ('l', 1, 'Who is the customer?', 'Ms Anneliese Brunner'),
        ('p', 1, 'How long is the repair guaranteed?', '6 months'),
        ('p', 1, 'When should the bike be serviced again?', 'March 2027'),
        ('p', 1, 'What does the client owe in the end?', 'PLN 311.68'), ('u', 0, 'What is the delivery date?', [])))


def utility_bill():
    p = Paper(face='DejaVuSans')
    p.text(60, 50, 'Northern Grid Energy', 30, True)
    p.text(60, 95, 'Electricity statement', 24)
    for i, (k, v) in enumerate([('Account', '7740 2291 06'), ('Statement period', '1 Jan - 31 Mar 2026'),
                                ('Meter', 'E-55018')]):
        p.draw.rectangle((60 + 340 * i, 160, 380 + 340 * i, 250), outline='#777')
        p.text(75 + 340 * i, 170, k, 15, fill='#555')
        p.text(75 + 340 * i, 205, v, 21)
    y = p.grid(60, 320, [420, 180, 180, 200],
               [['Reading', 'Previous', 'Present', 'Used kWh'], ['Day rate', '14,220', '15,006', '786'],
                ['Night rate', '8,101', '8,544', '443']], rules='h', right=(1, 2, 3))
    y = p.grid(60, y + 60, [600, 380], [['Charges', 'GBP'], ['Day units 786 x 0.29', '227.94'],
                                        ['Night units 443 x 0.17', '75.31'], ['Standing charge', '41.86'],
                                        ['Climate levy', '9.20']], right=(1,))
    p.draw.rectangle((60, y + 40, 1040, y + 120), fill='#eee')
    p.text(80, y + 62, 'Please pay GBP 354.31 by 28 April 2026', 28, True)
    p.text(60, y + 170, 'Questions? Ring 0345 118 2020 or write to care@northerngrid.example')
    p.scanned(1.0, 3)
    return dict(kind='invoice', pages=[p.im], questions=ask(
        ('l', 1, 'What is the account?', '7740 2291 06'),
        ('l', 1, 'What is the statement period?', '1 Jan - 31 Mar 2026'),
        ('l', 1, 'What is the standing charge?', '41.86'),
        ('l', 1, 'What is the present reading of the night rate?', '8,544'),
        ('l', 1, 'How many kWh were used at the day rate?', '786'), ('l', 1, 'What is the meter?', 'E-55018'),
        ('l', 1, 'How much is the climate levy?', '9.20'),
        ('p', 1, 'By when must the money arrive?', '28 April 2026'),
        ('p', 1, 'Which phone number answers questions?', '0345 118 2020'),
        ('p', 1, 'Under which address can one send an email?', 'care@northerngrid.example')))


def clinic_form():
    p = Paper(face='DejaVuSans')
    p.text(550, 60, 'PATIENT REGISTRATION', 32, True, anchor='ma')
    p.text(550, 110, 'Lakeside Dental Practice', 20, anchor='ma')
    rows = [('Surname', 'Okonkwo'), ('Given names', 'Chidi Emmanuel'), ('Born', '17 November 1984'),
            ('Mobile', '07700 900 417'), ('Occupation', 'Bus driver'), ('Insurer', 'Helvia Mutual'),
            ('Policy number', 'HM-40-99812'), ('Referred by', 'Dr. Sunita Rao'), ('Last visit', 'October 2023')]
    for i, (k, v) in enumerate(rows):
        y = 190 + 62 * i
        p.text(80, y, k, 19)
        p.draw.line((330, y + 30, 1000, y + 30), fill='#555')
        p.text(345, y, v, 21)
    p.text(80, 790, 'Medical history', 24, True)
    p.text(80, 840, 'Smoker:   [ ] yes   [x] no')
    p.text(80, 880, 'Blood thinner: none')
    p.text(80, 920, 'Known allergies: latex, ibuprofen')
    p.text(80, 990, 'Date: 3 August 2026      Signature: C. Okonkwo')
    return dict(kind='form', pages=[p.im], questions=ask(
        ('l', 1, 'What is the surname?', 'Okonkwo'), ('l', 1, 'What are the given names?', 'Chidi Emmanuel'),
        ('l', 1, 'What is the policy number?', 'HM-40-99812'), ('l', 1, 'Who is the insurer?', 'Helvia Mutual'),
        ('l', 1, 'What are the known allergies?', 'latex, ibuprofen'),
        ('l', 1, 'What is the occupation?', 'Bus driver'), ('l', 1, 'When was the last visit?', 'October 2023'),
        ('l', 1, 'By whom was the patient referred?', 'Dr. Sunita Rao'),
        ('p', 1, 'What does the patient do for a living?', 'Bus driver'),
        ('p', 1, 'When was the patient born?', '17 November 1984'),
        ('p', 1, 'Which doctor sent the patient?', 'Dr. Sunita Rao'), ('u', 0, 'What is the marital status?', [])))


def equipment_request():
    p = Paper(1100, 1000, face='DejaVuSansMono')
    p.text(60, 50, 'EQUIPMENT REQUEST', 28, True)
    rows = [('Request id', 'EQ-3307'), ('Requested by', 'Lena Fischer'), ('Cost unit', '48-210'),
            ('Item wanted', 'Laser level, green'), ('Pieces', '3'), ('Needed by', '12 Oct 2026'),
            ('Site', 'Tunnel section B'), ('Decision', 'granted')]
    for i, (k, v) in enumerate(rows): p.text(60, 130 + 48 * i, f'{k} {"." * (30 - len(k))} {v}', 20)
    p.text(60, 580, 'Reason', 20, True)
    p.flow(60, 615, 'The two old levels failed their calibration on 4 September and cannot be repaired.', 900)
    p.text(60, 720, 'Decided by: Omar Haddad, Plant Office')
    return dict(kind='form', pages=[p.im], questions=ask(
        ('l', 1, 'What is the request id?', 'EQ-3307'), ('l', 1, 'Who requested it?', 'Lena Fischer'),
        ('l', 1, 'How many pieces are wanted?', '3'), ('l', 1, 'What is the site?', 'Tunnel section B'),
        ('l', 1, 'What item is wanted?', 'Laser level, green'),
        ('l', 1, 'By what date is it needed?', '12 Oct 2026'),
        ('p', 1, 'Where will the equipment be used?', 'Tunnel section B'),
        ('p', 1, 'Was the request approved?', 'granted'),
        ('p', 1, 'Who made the decision?', ['Omar Haddad', 'Omar Haddad, Plant Office'])))


def harbour_report():
    a, b = Paper(face='DejaVuSerif'), Paper(face='DejaVuSerif')
    a.text(80, 70, 'Port of Vesterhavn', 42, True)
    a.text(80, 130, 'Traffic report for the second quarter of 2026', 24)
    a.text(80, 210, 'Overview', 26, True)
    y = a.flow(80, 255, 'Between April and June 1,184 ships called at the port, 4.2% fewer than a year ago. Cargo '
                        'rose to 6.3 million tonnes. The new crane, built by Mantsinen, went into service on 18 May. '
                        'Harbour master Ingeborg Dahl expects a quieter summer.', 940)
    a.text(80, y + 40, 'Cargo by berth', 26, True)
    rows = [['Berth', 'Main goods', 'Tonnes', 'Calls', 'Waiting time'], ['A1', 'Timber', '812,400', '214', '3.5 h'],
            ['A2', 'Grain', '1,204,900', '188', '6.0 h'], ['B1', 'Containers', '2,655,000', '402', '1.8 h'],
            ['B2', 'Oil products', '1,390,200', '156', '9.2 h'], ['C1', 'Cars', '237,500', '224', '2.4 h']]
    y = a.grid(80, y + 90, [120, 260, 200, 140, 200], rows, right=(2, 3, 4))
    a.text(80, y + 40, 'Accidents', 26, True)
    a.flow(80, y + 85,
           'Two minor accidents were recorded. Nobody was hurt. Damage to quay B2 was put at 48,000 euros.', 940)
    b.text(80, 70, 'Finances', 26, True)
    for i, (k, v) in enumerate([('Port dues', 'EUR 3.9m'), ('Crane hire', 'EUR 1.2m'), ('Rents', 'EUR 0.8m'),
                                ('Total income', 'EUR 5.9m')]):
        b.text(100, 130 + 40 * i, k)
        b.text(560, 130 + 40 * i, v, anchor='ra')
    b.text(80, 330, 'Works under way', 26, True)
    b.grid(80, 380, [360, 240, 220, 180], [['Project', 'Contractor', 'Finish', 'Cost'],
                                           ['Dredging of the fairway', 'Boskalis', 'Nov 2026', '14.0m'],
                                           ['Shore power at A2', 'Nordkraft', 'Feb 2027', '3.6m'],
                                           ['New fender line B1', 'Trelleborg', 'Sep 2026', '0.9m']], head='#333')
    return dict(kind='report', pages=[a.im, b.im], questions=ask(
        ('l', 1, 'How many ships called at the port?', '1,184'),
        ('l', 1, 'How many tonnes were handled at berth A2?', '1,204,900'),
        ('l', 1, 'What is the waiting time at berth B2?', '9.2 h'),
        ('l', 1, 'What are the main goods of berth C1?', 'Cars'),
        ('l', 1, 'When did the new crane go into service?', '18 May'),
        ('l', 1, 'Who is the harbour master?', ['Ingeborg Dahl', 'Harbour master Ingeborg Dahl']),
        ('l', 2, 'What is the total income?', 'EUR 5.9m'),
        ('l', 2, 'Who is the contractor for shore power at A2?', 'Nordkraft'),
        ('l', 2, 'What is the cost of the dredging of the fairway?', '14.0m'),
        ('l', 1, 'Which berth handles oil products?', 'B2'),
        ('p', 2, 'When will the new fender line B1 be completed?', 'Sep 2026'),
        ('p', 1, 'How many vessels berthed at B1?', '402'),
        ('p', 1, 'How expensive was the damage to the quay?', ['48,000 euros', '48,000']),
        ('p', 2, 'How much did the port earn from rents?', 'EUR 0.8m'),
        ('u', 0, 'How many passengers used the ferry?', [])))


def school_report():
    p = Paper(face='DejaVuSans')
    p.text(60, 60, 'Riverbank Primary School', 30, True)
    p.text(60, 105, 'Inspection summary', 22, fill='#444')
    y = p.grid(60, 170, [430, 270, 270], [['Area inspected', '2022', '2026'],
                                          ['Teaching quality', 'good', 'outstanding'], ['Leadership', 'good', 'good'],
                                          ['Pupil attendance', '93.1%', '95.8%'], ['Reading at age 8', '71%', '78%'],
                                          ['Pupils per teacher', '24.5', '21.0']], rules='h')
    p.text(60, y + 40, 'Findings', 22, True)
    y = p.flow(60, y + 80, 'The school has 312 pupils in 14 classes. Head teacher Moira Campbell was appointed in '
                           'September 2023. The inspectors visited on 11 and 12 March 2026.', 960)
    for s in ('Library opening hours should be extended', 'Outdoor area needs new surfacing',
              'Music lessons are offered from year 3'):
        y += 12
        p.text(80, y, '• ' + s)
        y += 30
    p.text(60, y + 40, 'Lead inspector: Graham Whitlock')
    p.scanned(-0.8, 5)
    return dict(kind='report', pages=[p.im], questions=ask(
        ('l', 1, 'What was the pupil attendance in 2026?', '95.8%'),
        ('l', 1, 'How was the teaching quality in 2022?', 'good'),
        ('l', 1, 'How many pupils per teacher were there in 2022?', '24.5'),
        ('l', 1, 'How many pupils does the school have?', '312'),
        ('l', 1, 'Who is the lead inspector?', 'Graham Whitlock'),
        ('l', 1, 'Who is the head teacher?', ['Moira Campbell', 'Head teacher Moira Campbell']),
        ('l', 1, 'What is reading at age 8 in 2026?', '78%'),
        ('p', 1, 'Who runs the school?', ['Moira Campbell', 'Head teacher Moira Campbell']),
        ('p', 1, 'What share of children came to school in 2022?', '93.1%')))


def pitch_slides():
    a, b, c, d = (Paper(1280, 720, paper=x, ink=y)
                  for x, y in (('#12263a', 'white'), ('white', '#222'), ('white', '#222'), ('#fff8e7', '#222')))
    a.text(90, 250, 'Solvita', 72, True)
    a.text(90, 350, 'Rooftop solar for renters', 32)
    a.text(90, 620, 'Investor meeting - Zurich - 14 January 2027', 20)
    b.text(70, 50, 'Where we are', 40, True)
    for i, (v, k) in enumerate([('2,430', 'homes served'), ('EUR 1.7M', 'yearly revenue'), ('38', 'people'),
                                ('11 months', 'payback')]):
        x = 70 + 295 * i
        b.draw.rounded_rectangle((x, 200, x + 265, 420), 12, outline='#bbb')
        b.text(x + 132, 260, v, 40, True, anchor='ma')
        b.text(x + 132, 340, k, 22, anchor='ma')
    c.text(70, 50, 'Installed capacity in MW', 40, True)
    for i, (k, v) in enumerate([('Spain', 6.4), ('Italy', 4.1), ('France', 2.7), ('Austria', 1.3)]):
        y = 170 + 110 * i
        c.text(220, y + 12, k, 26, anchor='ra')
        c.draw.rectangle((240, y, 240 + int(v * 120), y + 56), fill='#e39b2d')
        c.text(255 + int(v * 120), y + 12, str(v), 26)
    d.text(70, 50, 'The ask', 40, True)
    for i, s in enumerate(('We raise EUR 6 million', 'Lead investor: Alpine Ventures',
                           'Use of funds: 60% sales, 40% product', 'Closing planned for 31 March 2027')):
        d.text(110, 170 + 90 * i, '▪ ' + s, 30)
    return dict(kind='slides', pages=[x.im for x in (a, b, c, d)], questions=ask(
        ('l', 2, 'How many homes are served?', '2,430'), ('l', 2, 'What is the yearly revenue?', 'EUR 1.7M'),
        ('l', 2, 'What is the payback?', '11 months'), ('l', 3, 'What is the installed capacity in Italy?', '4.1'),
        ('l', 4, 'Who is the lead investor?', 'Alpine Ventures'),
        ('l', 4, 'When is the closing planned?', '31 March 2027'),
        ('l', 4, 'How much does the company raise?', ['EUR 6 million']),
        ('p', 2, 'How large is the team?', ['38', '38 people']), ('p', 3, 'How many megawatts stand in Spain?', '6.4'),
        ('p', 1, 'In which city does the meeting take place?', 'Zurich'), ('u', 0, 'Who is the chief executive?', [])))


def pump_sheet():
    p = Paper(face='DejaVuSans')
    p.text(60, 50, 'HydroMax P-series', 36, True)
    p.text(60, 100, 'Submersible pumps for clear water', 22)
    y = p.grid(60, 170, [150, 190, 190, 210, 220],
               [['Type', 'Power (kW)', 'Head (m)', 'Flow (m3/h)', 'Article no.'],
                ['P-25', '0.55', '38', '4.2', '118-025'], ['P-40', '0.75', '52', '4.8', '118-040'],
                ['P-40-S', '0.75', '61', '3.9', '118-041'], ['P-60', '1.10', '74', '6.5', '118-060']], head='#0b3954',
               right=(1, 2, 3))
    p.text(60, y + 40, 'General', 24, True)
    for i, (k, v) in enumerate([('Mains', '230 V / 50 Hz'), ('Cable', '20 m, H07RN-F'), ('Outlet', 'G 1 1/4'),
                                ('Max. water temperature', '35 °C'), ('Max. sand content', '50 g/m3'),
                                ('Casing', 'Bronze'), ('Insulation class', 'F')]):
        yy = y + 90 + 40 * i
        p.text(80, yy, k)
        p.text(480, yy, v)
        p.draw.line((60, yy + 32, 900, yy + 32), fill='#ccc')
    p.text(60, y + 420, 'Certified to EN 60335-2-41. Made in Slovenia. Warranty: 36 months.')
    return dict(kind='datasheet', pages=[p.im], questions=ask(
        ('l', 1, 'What is the head of the P-40-S?', '61'), ('l', 1, 'What is the flow of the P-40?', '4.8'),
        ('l', 1, 'What is the article number of the P-60?', '118-060'), ('l', 1, 'What is the casing?', 'Bronze'),
        ('l', 1, 'What is the maximum water temperature?', '35 °C'), ('l', 1, 'What is the insulation class?', 'F'),
        ('l', 1, 'What is the outlet?', 'G 1 1/4'), ('l', 1, 'Which type has the article number 118-041?', 'P-40-S'),
        ('l', 1, 'What is the warranty?', '36 months'), ('p', 1, 'What is the housing made of?', 'Bronze'),
        ('p', 1, 'In which country is the pump built?', 'Slovenia'),
        ('p', 1, 'How many kilowatts does the P-25 draw?', '0.55'), ('u', 0, 'What is the noise level?', [])))


def chip_sheet():
    p = Paper(face='DejaVuSerif')
    p.text(60, 50, 'TX9014 low-noise amplifier', 32, True)
    y = p.flow(60, 110, 'The TX9014 is a two-channel amplifier for sensors. It works from a single supply of 2.7 V to '
                        '5.5 V and draws 38 µA per channel.', 960)
    p.text(60, y + 30, 'Characteristics at 25 °C', 22, True)
    p.grid(60, y + 75, [380, 130, 130, 130, 130],
           [['Parameter', 'Min', 'Typ', 'Max', 'Unit'], ['Input offset voltage', '-', '0.3', '1.2', 'mV'],
            ['Input bias current', '-', '0.5', '10', 'pA'], ['Gain bandwidth', '0.8', '1.1', '-', 'MHz'],
            ['Slew rate', '0.4', '0.6', '-', 'V/us'], ['Noise density', '-', '14', '22', 'nV']], rules='h')
    p.text(60, y + 350, 'Ordering', 22, True)
    p.grid(60, y + 395, [260, 260, 260], [['Order code', 'Package', 'Reel'], ['TX9014-D', 'SOIC-8', '2500'],
                                          ['TX9014-M', 'MSOP-8', '3000']], rules='h')
    return dict(kind='datasheet', pages=[p.im], questions=ask(
        ('l', 1, 'What is the typical input offset voltage?', '0.3'), ('l', 1, 'What is the max noise density?', '22'),
        ('l', 1, 'What is the min slew rate?', '0.4'), ('l', 1, 'What is the package of the TX9014-M?', 'MSOP-8'),
        ('l', 1, 'What is the reel of the TX9014-D?', '2500'),
        ('l', 1, 'What is the unit of the gain bandwidth?', 'MHz'),
        ('p', 1, 'What is the highest bias current?', '10'),
        ('p', 1, 'How many pieces of TX9014-M are on a reel?', '3000')))


def flat_lease():
    a = Paper(face='DejaVuSerif')
    a.text(550, 70, 'RENTAL CONTRACT FOR A FLAT', 30, True, anchor='ma')
    y = a.flow(80, 150, 'Landlord: Beatrix Hollander, Prinsengracht 210, Amsterdam. Tenant: Samuel Adeyemi, born 2 '
                        'May 1990. The flat lies at Keizersgracht 88, second floor, and measures 64 square metres.',
               940)
    for h, t in [('§ 1 Start and end', 'The tenancy begins on 1 September 2026. It runs for an indefinite time and '
                                       'may be ended by either side with three months\' notice.'),
                 ('§ 2 Rent', 'The rent is EUR 1,480 a month. Heating and water are charged at EUR 160 a month. Both '
                              'are due on the third working day of each month.'),
                 ('§ 3 Deposit', 'The tenant pays a deposit of EUR 2,960 before moving in. It is returned within six '
                                 'weeks after the end of the tenancy.'),
                 ('§ 4 Use', 'Pets need the written consent of the landlord. Smoking is forbidden in the staircase.'),
                 ('§ 5 Keys', 'The tenant receives four keys to the flat and one key to the cellar.')]:
        a.text(80, y + 25, h, 22, True)
        y = a.flow(80, y + 62, t, 940)
    return dict(kind='contract', pages=[a.im], questions=ask(
        ('l', 1, 'Who is the landlord?', 'Beatrix Hollander'), ('l', 1, 'Who is the tenant?', 'Samuel Adeyemi'),
        ('l', 1, 'When does the tenancy begin?', '1 September 2026'),
        ('l', 1, 'How much is the rent?', ['EUR 1,480', 'EUR 1,480 a month']),
        ('l', 1, 'How much is the deposit?', 'EUR 2,960'),
        ('l', 1, 'How many keys to the flat does the tenant receive?', 'four'),
        ('l', 1, 'Within what time is the deposit returned?', 'six weeks'),
        ('p', 1, 'How large is the apartment?', ['64 square metres', '64']),
        ('p', 1, 'What is the period of notice?', ["three months", "three months' notice"]),
        ('p', 1, 'What is paid each month for heating?', ['EUR 160', 'EUR 160 a month']),
        ('u', 0, 'Who is the estate agent?', [])))


def supply_contract():
    a, b = Paper(face='DejaVuSans'), Paper(face='DejaVuSans')
    a.text(80, 60, 'Framework agreement', 34, True)
    a.text(80, 110, 'Key terms', 24, True)
    y = 160
    for k, v in [('Agreement ref.', 'FW/2026/118'), ('Purchaser', 'City of Halden'),
                 ('Seller', 'Arboris Nurseries Ltd'), ('Subject', 'Street trees'), ('Valid from', '15.02.2026'),
                 ('Valid to', '14.02.2030'), ('Ceiling', 'NOK 4,200,000'),
                 ('Terms of payment', '30 days after delivery')]:
        a.draw.rectangle((80, y, 1000, y + 44), outline='#aaa')
        a.draw.line((360, y, 360, y + 44), fill='#aaa')
        a.text(92, y + 10, k, 18, True)
        a.text(375, y + 10, v, 18)
        y += 44
    a.text(80, y + 40, '1  Deliveries', 22, True)
    a.flow(80, y + 80, 'The Seller delivers within ten working days of an order. Trees that die within the first two '
                       'years are replaced free of charge.', 940)
    b.text(80, 60, '2  Contacts', 22, True)
    b.grid(80, 110, [220, 300, 400], [['Party', 'Person', 'Phone'], ['Purchaser', 'Astrid Moen', '+47 69 17 45 00'],
                                      ['Seller', 'Joris van Dam', '+31 172 555 010']], rules='h')
    b.text(80, 320, '3  Disputes', 22, True)
    b.flow(80, 360, 'Norwegian law applies. Disputes are heard by the district court of Sarpsborg.', 940)
    return dict(kind='contract', pages=[a.im, b.im], questions=ask(
        ('l', 1, 'What is the agreement ref.?', 'FW/2026/118'), ('l', 1, 'Who is the purchaser?', 'City of Halden'),
        ('l', 1, 'What is the ceiling?', 'NOK 4,200,000'), ('l', 1, 'What is the subject?', 'Street trees'),
        ('l', 2, 'What is the phone of the seller?', '+31 172 555 010'),
        ('l', 1, 'Within what time does the Seller deliver?', 'ten working days'),
        ('l', 1, 'What are the terms of payment?', '30 days after delivery'),
        ('p', 1, 'When does the contract expire?', '14.02.2030'),
        ('p', 1, 'Who supplies the trees?', 'Arboris Nurseries Ltd'),
        ('p', 2, 'Where would a legal case be heard?',
         ['district court of Sarpsborg', 'the district court of Sarpsborg', 'Sarpsborg']),
        ('p', 2, 'Who speaks for the purchaser?', 'Astrid Moen')))


def class_timetable():
    p = Paper(1300, 900, face='DejaVuSans')
    p.text(60, 40, 'Class 7b - timetable from 31 August 2026', 28, True)
    p.grid(60, 110, [150, 200, 200, 200, 200, 200],
           [['Time', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday'],
            ['08:00', 'Maths', 'English', 'Physics', 'Maths', 'Art'],
            ['08:50', 'Latin', 'Maths', 'Music', 'English', 'History'],
            ['09:55', 'Sport', 'Biology', 'Latin', 'Geography', 'Maths'],
            ['10:45', 'English', 'History', 'Maths', 'Chemistry', 'Latin']], head='#444', height=60)
    p.text(60, 470, 'Form teacher: Ms Katarina Blum     Room: 214')
    p.text(60, 510, 'Swimming takes place on Monday afternoon in the Westbad.')
    return dict(kind='timetable', pages=[p.im], questions=ask(
        ('l', 1, 'What is taught on Wednesday at 08:50?', 'Music'),
        ('l', 1, 'What is taught on Thursday at 10:45?', 'Chemistry'),
        ('l', 1, 'Who is the form teacher?', 'Ms Katarina Blum'), ('l', 1, 'What is the room?', '214'),
        ('l', 1, 'What is on Friday at 08:00?', 'Art'),
        ('p', 1, 'Where do the pupils swim?', ['Westbad', 'the Westbad']),
        ('p', 1, 'From when does the plan hold?', '31 August 2026')))


def ferry_times():
    p = Paper(1000, 1100, face='DejaVuSerif', paper='#fdfdf5')
    p.text(500, 50, 'Ferry Lund - Skarvik', 34, True, anchor='ma')
    p.text(500, 100, 'Summer season, 20 May to 10 September', 20, anchor='ma')
    p.grid(100, 170, [260, 180, 180, 180], [['Ship', 'Lund', 'Oya', 'Skarvik'],
                                            ['Morning Star', '06:40', '07:15', '07:50'],
                                            ['Havørn', '09:10', '09:45', '10:20'],
                                            ['Sea Queen', '13:30', '14:05', '14:40'],
                                            ['Morning Star', '18:00', '18:35', '19:10']], rules='h', height=46)
    p.text(100, 440, 'Prices', 24, True)
    for i, (k, v) in enumerate([('Foot passenger', '€ 9.50'), ('Bicycle', '€ 4.00'), ('Car with driver', '€ 31.00'),
                                ('Dog', 'free')]):
        p.text(120, 490 + 40 * i, k)
        p.text(520, 490 + 40 * i, v, anchor='ra')
    p.text(100, 690, 'Booking office: Skarvik quay, tel. +46 431 700 22. Closed on Sundays.')
    return dict(kind='timetable', pages=[p.im], questions=ask(
        ('l', 1, 'When does the Sea Queen reach Oya?', '14:05'), ('l', 1, 'When does the Havørn leave Lund?', '09:10'),
        ('l', 1, 'What is the price for a bicycle?', '€ 4.00'),
        ('l', 1, 'What is the price for a car with driver?', '€ 31.00'),
        ('l', 1, 'Where is the booking office?', 'Skarvik quay'),
        ('p', 1, 'What does one pay for walking on board?', '€ 9.50'),
        ('p', 1, 'When does the Sea Queen get to Skarvik?', '14:40'),
        ('p', 1, 'On which day is nobody in the office?', 'Sundays'), ('u', 0, 'Who is the captain?', [])))


def documents():
    "All documents: dicts with kind, pages (images), questions"
    for make in (repair_bill, utility_bill, clinic_form, equipment_request, harbour_report, school_report,
                 pitch_slides, pump_sheet, chip_sheet, flat_lease, supply_contract, class_timetable, ferry_times):
        yield make()
