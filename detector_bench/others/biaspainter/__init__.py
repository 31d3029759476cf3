"""BiasPainter: what T2I models do to gender, age and skin tone when they edit a photo of a person.

What BiasPainter calls race is skin tone, the brightness of facial skin. It is not race.
"""
