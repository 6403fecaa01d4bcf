' What LibreOffice does with one document, in a profile of its own: the names in braces are filled in before it starts.
' It prepares the document so that a PDF shows all that is in it, and writes down what it found, a line each.

Dim WithNotes As Boolean

Sub Main
  On Error Goto Failed
  Dim doc
  WithNotes = False
  Dim how(4) as new com.sun.star.beans.PropertyValue
  how(0).Name = "Hidden": how(0).Value = True
  how(1).Name = "MacroExecutionMode": how(1).Value = 0
  how(2).Name = "UpdateDocMode": how(2).Value = 0
  how(3).Name = "FilterName": how(3).Value = "{filter}"
  how(4).Name = "FilterOptions": how(4).Value = "{options}"
  doc = StarDesktop.loadComponentFromURL("{source}", "_blank", 0, how())
  If Not IsNull(doc) Then doc.lockControllers()
  If IsNull(doc) Then
    Say("refused", 1)
  Else
    If doc.supportsService("com.sun.star.text.GenericTextDocument") Then
      PrepareText(doc)
    ElseIf doc.supportsService("com.sun.star.sheet.SpreadsheetDocument") Then
      PrepareSheets(doc)
    ElseIf doc.supportsService("com.sun.star.presentation.PresentationDocument") Then
      PrepareSlides(doc)
    End If
    Store(doc, "{target}", False)
    If WithNotes Then Store(doc, "{notes}", True)
    Say("done", 1)
  End If
  Goto Ended
Failed:
  Say("failed", Err)
Ended:
  On Error Resume Next
  doc.close(True)
  StarDesktop.terminate()
End Sub

Sub Say(what, count)
  f = FreeFile
  Open "{report}" For Append As #f
  Print #f, what & "=" & count
  Close #f
End Sub

Sub Store(doc, target, onlyNotes)
  Dim out(1) as new com.sun.star.beans.PropertyValue
  Dim how(5) as new com.sun.star.beans.PropertyValue
  how(0).Name = "ExportBookmarks": how(0).Value = Not onlyNotes
  how(1).Name = "ExportNotesPages": how(1).Value = onlyNotes
  how(2).Name = "ExportOnlyNotesPages": how(2).Value = onlyNotes
  how(3).Name = "ExportHiddenSlides": how(3).Value = True
  how(4).Name = "ExportFormFields": how(4).Value = False
  how(5).Name = "ReduceImageResolution": how(5).Value = False
  out(0).Name = "FilterName": out(0).Value = "{export}"
  out(1).Name = "FilterData": out(1).Value = how()
  doc.storeToURL(target, out())
End Sub

Function CountAll(things)
  CountAll = 0
  every = things.createEnumeration()
  Do While every.hasMoreElements()
    every.nextElement()
    CountAll = CountAll + 1
  Loop
End Function

Sub WidenPages(doc)
  On Error Goto Done
  most = 0
  For i = 0 To doc.TextTables.Count - 1
    names = doc.TextTables.getByIndex(i).CellNames
    For k = 0 To UBound(names)
      column = Asc(UCase(Left(names(k), 1))) - 64
      If Len(names(k)) > 1 And Not IsNumeric(Mid(names(k), 2, 1)) Then column = 27
      If Not IsNumeric(Left(names(k), 1)) And column > most Then most = column
    Next
  Next
  If most < 8 Then Exit Sub
  styles = doc.StyleFamilies.getByName("PageStyles")
  For i = 0 To styles.Count - 1
    style = styles.getByIndex(i)
    If style.isInUse() Then
      style.IsLandscape = True
      style.Width = 29700
      If most > 12 Then style.Width = 59400
      If most > 24 Then style.Width = 118900
      style.Height = style.Width / 1.4142
    End If
  Next
Done:
End Sub

Sub PrepareText(doc)
  On Error Goto Done
  If Left("{filter}", 4) = "HTML" Then WidenPages(doc)
  Dim none()
  changes = CountAll(doc.Redlines)
  If changes > 0 Then
    dispatcher = createUnoService("com.sun.star.frame.DispatchHelper")
    dispatcher.executeDispatch(doc.CurrentController.Frame, ".uno:AcceptAllTrackedChanges", "", 0, none())
    If CountAll(doc.Redlines) > 0 Then Say("unaccepted", 1)
    Say("changes", changes)
  End If
  comments = 0
  every = doc.TextFields.createEnumeration()
  Do While every.hasMoreElements()
    field = every.nextElement()
    If field.supportsService("com.sun.star.text.textfield.Annotation") Then
      comments = comments + 1
      field.dispose()   ' LibreOffice 7.4 crashes where it lays out some of them
    End If
  Loop
  If comments > 0 Then Say("comments", comments)
Done:
End Sub

Sub PrepareSheets(doc)
  Dim sheetNo as Long, comments as Long, rowsLeft as Long, lastRow as Long, lastColumn as Long
  comments = 0: hidden = 0: rowsLeft = {rows}
  For sheetNo = 0 To doc.Sheets.Count - 1
    sheet = doc.Sheets.getByIndex(sheetNo)
    If Not sheet.IsVisible Then
      hidden = hidden + 1
    Else
      comments = comments + sheet.Annotations.Count
      cursor = sheet.createCursor()
      cursor.gotoEndOfUsedArea(False)
      lastRow = cursor.RangeAddress.EndRow
      lastColumn = cursor.RangeAddress.EndColumn
      chosen = UBound(sheet.getPrintAreas()) >= 0
      If chosen Then Reach(sheet, lastColumn, lastRow)
      If lastRow >= rowsLeft Or lastColumn >= {columns} Then
        chosen = True
        If lastRow >= rowsLeft Then
          lastRow = rowsLeft - 1
          If lastRow < 0 Then lastRow = 0
          Say("cut rows", lastRow + 1)
        End If
        If lastColumn >= {columns} Then
          lastColumn = {columns} - 1
          Say("cut columns", lastColumn + 1)
        End If
      End If
      If chosen Then
        Dim area(0) as new com.sun.star.table.CellRangeAddress
        area(0).Sheet = sheetNo
        area(0).EndRow = lastRow
        area(0).EndColumn = lastColumn
        sheet.setPrintAreas(area())
      End If
      rowsLeft = rowsLeft - lastRow - 1
      used = sheet.getCellRangeByPosition(0, 0, lastColumn, lastRow)
      If CDbl(lastRow) * lastColumn < 200000 Then FitColumns(used)
      FitPage(doc.StyleFamilies.getByName("PageStyles").getByName(sheet.PageStyle), used)
      seen = used.queryVisibleCells()
      whole = False
      If seen.Count = 1 Then
        ends = seen.getByIndex(0).RangeAddress
        whole = ends.EndRow >= lastRow And ends.EndColumn >= lastColumn
      End If
      If Not whole Then Say("hidden cells", 1)
    End If
  Next
  If hidden > 0 Then Say("hidden sheets", hidden)
  If comments > 0 Then Say("comments", comments)
End Sub

Sub Reach(sheet, lastColumn, lastRow)
  Dim i as Long
  On Error Goto Done
  For i = 0 To sheet.DrawPage.Count - 1
    shape = sheet.DrawPage.getByIndex(i)
    Do While lastColumn < 200 And sheet.Columns.getByIndex(lastColumn).Position.X < shape.Position.X + shape.Size.Width
      lastColumn = lastColumn + 1
    Loop
    Do While lastRow < 2000 And sheet.Rows.getByIndex(lastRow).Position.Y < shape.Position.Y + shape.Size.Height
      lastRow = lastRow + 1
    Loop
  Next
Done:
End Sub

Sub FitColumns(used)
  On Error Goto Done
  wrapped = False
  used.ParaLeftMargin = 200
  used.ParaRightMargin = 200
  For i = 0 To used.Columns.Count - 1
    column = used.Columns.getByIndex(i)
    If column.IsVisible Then
      before = column.Width
      If Left("{filter}", 4) = "Text" Then before = 0   ' nobody chose the widths of a table of text
      column.OptimalWidth = True
      If column.Width < before Then column.Width = before
      If column.Width > 9000 And column.Width > before Then
        wide = 9000
        If column.Width > 50000 Then   ' as wide as a column can be: its rows would be higher than a page
          longest = LongestText(used, i)
          If longest > 1000 Then wide = 25000
          If longest > 4000 Then wide = 57000
          If longest > 20000 Then Say("long cells", 1)
        End If
        column.Width = wide
        If before > wide Then column.Width = before
        used.getCellRangeByPosition(i, 0, i, used.Rows.Count - 1).IsTextWrapped = True
        wrapped = True
      End If
    End If
  Next
  If wrapped And used.Rows.Count < 5000 Then
    used.VertJustify = com.sun.star.table.CellVertJustify2.TOP
    For i = 0 To used.Rows.Count - 1
      row = used.Rows.getByIndex(i)
      If row.IsVisible Then
        row.OptimalHeight = True
        If row.Height > 1500 Then row.Height = row.Height * 1.08 + 500   ' printed, a text may need a line more
      End If
    Next
  End If
Done:
End Sub

Function LongestText(used, number)
  LongestText = 0
  texts = used.getCellRangeByPosition(number, 0, number, used.Rows.Count - 1).getDataArray()
  For k = 0 To UBound(texts)
    row = texts(k)
    If Len(row(0)) > LongestText Then LongestText = Len(row(0))
  Next
End Function

Sub FitPage(style, used)
  wide = used.Size.Width
  style.ScaleToPagesX = 1
  style.ScaleToPagesY = 0
  If Left("{filter}", 4) = "Text" Then   ' a table of text has no name and no pages of its own
    style.HeaderIsOn = False
    style.FooterIsOn = False
  End If
  margins = style.LeftMargin + style.RightMargin
  If wide > style.Width - margins Then
    page = wide * 0.8 + margins
    If page < 29700 Then page = 29700
    If page > 84100 Then page = 84100
    style.IsLandscape = True
    style.Width = page
    style.Height = page / 1.4142
  End If
End Sub

Sub PrepareSlides(doc)
  Dim i as Long, k as Long
  For i = 0 To doc.DrawPages.Count - 1
    slide = doc.DrawPages.getByIndex(i)
    NameSlide(slide)
    LayOutNotes(doc, slide, i)
  Next
  Say("slides", doc.DrawPages.Count)
End Sub

Sub NameSlide(slide)
  On Error Goto Done
  For k = 0 To slide.Count - 1
    shape = slide.getByIndex(k)
    If shape.ShapeType = "com.sun.star.presentation.TitleTextShape" And Trim(shape.String) <> "" Then
      slide.Name = Left(Trim(shape.String), 200)
      Exit Sub
    End If
  Next
Done:
End Sub

Sub LayOutNotes(doc, slide, number)
  On Error Goto Done
  Dim size as new com.sun.star.awt.Size, place as new com.sun.star.awt.Point
  page = slide.NotesPage
  pictured = False: noted = False
  For k = 0 To page.Count - 1
    shape = page.getByIndex(k)
    If shape.ShapeType = "com.sun.star.presentation.PageShape" Then pictured = True
    If shape.ShapeType = "com.sun.star.presentation.NotesShape" Then
      If Trim(shape.String) <> "" And Not shape.IsEmptyPresentationObject Then noted = True
    End If
  Next
  If Not noted Then Exit Sub
  If Not pictured Then page.add(doc.createInstance("com.sun.star.presentation.PageShape"))
  edge = page.Width / 20
  size.Width = page.Width - 2 * edge
  size.Height = size.Width * slide.Height / slide.Width
  If size.Height > page.Height * 0.55 Then
    size.Height = page.Height * 0.55
    size.Width = size.Height * slide.Width / slide.Height
  End If
  bottom = edge + size.Height
  For k = 0 To page.Count - 1
    shape = page.getByIndex(k)
    If shape.ShapeType = "com.sun.star.presentation.PageShape" Then
      place.X = (page.Width - size.Width) / 2
      place.Y = edge
      shape.setPosition(place)
      shape.setSize(size)
    End If
  Next
  For k = 0 To page.Count - 1
    shape = page.getByIndex(k)
    If shape.ShapeType = "com.sun.star.presentation.NotesShape" Then
      shape.TextAutoGrowHeight = False
      shape.TextFitToSize = com.sun.star.drawing.TextFitToSizeType.AUTOFIT
      place.X = edge
      place.Y = bottom + edge / 2
      size.Width = page.Width - 2 * edge
      size.Height = page.Height - edge - place.Y
      shape.setPosition(place)
      shape.setSize(size)
    End If
  Next
  WithNotes = True
  Say("notes", number + 1)
Done:
End Sub
